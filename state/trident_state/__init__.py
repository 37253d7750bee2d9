"""What outlives a batch. Import states from ``trident.state``."""
