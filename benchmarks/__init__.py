"""Comparison tables. Nothing here passes or fails; read the ratios, since machines differ and are noisy."""
