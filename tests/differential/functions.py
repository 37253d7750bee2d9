"""The functions that drawn topologies use: importable, because Spark's workers get them by name."""

from collections.abc import Iterator
from typing import Any

from trident import expr


def length(word: str | None) -> int | None:
    return None if word is None else len(word)


def twice(n: int | None) -> int | None:
    return None if n is None else 2 * n


def even(n: int | None) -> bool:
    return n is not None and n % 2 == 0


def some(word: str | None) -> bool:
    return word is not None and word != ""


def letters(word: str | None) -> Iterator[str | None]:
    yield from word or ()


def both(word: str | None, n: int | None) -> tuple[str, int | None]:
    return f"{word}!", n


def up_to(n: int | None) -> Iterator[tuple[int, str]]:
    yield from ((each, "x" * each) for each in range(min(n or 0, 3)))


def sort_out(word: str | None, n: int | None) -> Iterator[tuple[str, Any]]:
    """Sends a tuple to one stream, to both, or to none."""
    if word:
        yield "texts", (word, n)
    for each in range(min(n or 0, 2)):
        yield "numbers", each


STREAMS = {"texts": (("word", "string"), ("n", "long")), "numbers": (("n", "long"),)}
"""Those of `sort_out`, with their fields."""


def to_place(n: int | None, count: int) -> Any:
    return 0 if n is None else [n % count, 0] if n == 3 and count > 1 else n % count


NATIVE = {
    "length": expr("CAST(length(word) AS BIGINT)"),
    "twice": expr("n * 2"),
    "even": expr("n % 2 = 0"),
    "some": expr("word <> ''"),
}
"""The same for Spark."""


class Longest:
    """A combiner of one's own."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return tuple[0] or ""

    def combine(self, a: str, b: str) -> str:
        return max(a, b, key=lambda word: (len(word), word))

    def zero(self) -> str:
        return ""
