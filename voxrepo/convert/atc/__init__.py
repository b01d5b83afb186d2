"""Ascend's compiler ``atc``: its command line, running it or leaving a script, and advice from what it prints."""
