"""Precision tiers: half precision, mixed with a keep list that is found, and 8 bit; see ``lowerer.lower``."""
