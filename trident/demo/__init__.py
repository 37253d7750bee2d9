"""The demo: a word count over a novel, killed and resumed before your eyes. Run ``python -m trident.demo``."""
