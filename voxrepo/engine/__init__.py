"""Launching tritonserver and talking to it."""
