"""Sources of batches. Import them from ``trident.spouts``."""
