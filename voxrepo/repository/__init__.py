"""The model repository on disk: reading, checking and rendering it."""
