"""The demo: a word count over a novel whose driver is killed and started again. Run ``python -m trident.demo``."""
