"""Stands for the other product of this name, which has no ``infer``."""
