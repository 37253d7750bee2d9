"""Stores: the states that outlive a batch. Import states from ``trident.state``."""
