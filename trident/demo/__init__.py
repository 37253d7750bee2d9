"""The main job on real text, killed and resumed before your eyes: ``python -m trident.demo``."""
