"""What the server counts about its own requests, and how it is exposed to Prometheus."""
