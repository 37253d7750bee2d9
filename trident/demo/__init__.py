"""The demo: a word count over a novel. Its driver is killed and started again. Run ``python -m trident.demo``."""

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "moby-dick"
"""The folder of the novel: a text file for each chapter. It comes with the library."""
