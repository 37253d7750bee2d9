"""Spouts: the sources of batches. Import spouts from ``trident.spouts``."""
