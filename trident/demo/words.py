"""The words of a text, and a count of words in plain Python, without batches, states or Spark."""

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

_WORD = re.compile(r"[a-z]+(?:'[a-z]+)*")


def words(line: str) -> Iterator[str]:
    """Yield the words of a line in lower case.

    >>> list(words("Don't call me Ishmael--"))
    ["don't", 'call', 'me', 'ishmael']
    """
    for match in _WORD.finditer(line.lower()):
        yield match.group()


def count_independently(folder: Path) -> Counter[str]:
    """Return how often each word occurs in all text files of a folder."""
    counts: Counter[str] = Counter()
    for path in sorted(folder.glob("*.txt")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                counts.update(words(line))
    return counts
