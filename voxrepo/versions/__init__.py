"""Versions of a voice's stages: added with proof, listed, compared and removed."""
