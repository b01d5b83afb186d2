"""Rollouts: versions of a voice's stages served side by side, judged by what they say, promoted or taken back."""
