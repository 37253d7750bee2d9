"""The command line: ``trident state ...``."""
