"""Golden files: what a text came to last time, to be read in a review. UPDATE_GOLDEN=1 writes them anew."""

import os
from pathlib import Path


def check_golden(folder: Path, name: str, text: str, within: str = "golden") -> None:
    """Compare a text with the golden file of this name, or write it where the environment asks for that."""
    path = folder / within / name
    if os.environ.get("UPDATE_GOLDEN") == "1":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert path.exists(), (
        f"no golden file {path.name}: look at the text, then run the test with UPDATE_GOLDEN=1\n{text}"
    )
    assert text == path.read_text(encoding="utf-8"), f"{path.name} differs; UPDATE_GOLDEN=1 takes the new text over"
