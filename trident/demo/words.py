"""What a word is, and a count of them that knows nothing of batches, states or Spark."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus" / "moby-dick"

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def words(line: str) -> Iterator[str]:
    """The words of a line, in small letters.

    >>> list(words("Don't call me Ishmael--"))
    ["don't", 'call', 'me', 'ishmael']
    """
    for found in _WORD.finditer(line.lower()):
        yield found.group()


def count_independently(folder: Path) -> Counter[str]:
    """Every word of every text file, counted by plain Python."""
    counted: Counter[str] = Counter()
    for path in sorted(folder.glob("*.txt")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                counted.update(words(line))
    return counted
