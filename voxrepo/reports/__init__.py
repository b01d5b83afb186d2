"""What the reports of rollouts and of quality have in common."""
