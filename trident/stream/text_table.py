"""Tuples as a table of text, in the form in which `DataFrame.show` prints them."""

from collections.abc import Sequence
from typing import Any


def text_table(names: Sequence[str], rows: Sequence[Sequence[Any]], width: int = 20) -> str:
    """Return a text table of `rows` with the header `names`. Longer texts are cut to `width` characters; 0: no limit.

    >>> print(text_table(["word", "n"], [("dog", 2), (None, 10)]))
    +----+--+
    |word| n|
    +----+--+
    | dog| 2|
    |NULL|10|
    +----+--+
    """
    lines = [[_cut(name, width) for name in names]] + [[_cut(_shown(value), width) for value in row] for row in rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(names))]
    rule = "+" + "+".join("-" * size for size in widths) + "+"
    texts = ["|" + "|".join(cell.rjust(size) for cell, size in zip(line, widths, strict=True)) + "|" for line in lines]
    return "\n".join([rule, texts[0], rule, *texts[1:], rule])


def _shown(value: Any) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _cut(text: str, width: int) -> str:
    if not width or len(text) <= width:
        return text
    return text[: width - 3] + "..." if width > 3 else text[:width]
