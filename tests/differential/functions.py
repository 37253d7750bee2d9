"""The functions that drawn topologies use: importable, because Spark's workers get them by name."""

import datetime
from collections.abc import Iterator
from typing import Any

import pandas as pd

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


def moment(n: int | None) -> datetime.datetime | None:
    """A time so many seconds after 1970."""
    return None if n is None else datetime.datetime.fromtimestamp(n, datetime.UTC)


def far(n: int | None) -> datetime.datetime | None:
    """A time so many times 100 seconds after 1970."""
    return None if n is None else datetime.datetime.fromtimestamp(100 * n, datetime.UTC)


def ranked(value: Any) -> tuple[Any, ...]:
    """What orders values: null last, before it NaN."""
    return (2,) if value is None else (1,) if value != value else (0, value)


def compared(a: Any, b: Any) -> int:
    """Two tuples, field by field."""
    left, right = [ranked(value) for value in a], [ranked(value) for value in b]
    return (left > right) - (left < right)


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


def length_of_series(word: pd.Series) -> pd.Series:
    return word.str.len()


def twice_a_series(n: pd.Series) -> pd.Series:
    return n * 2


def letters_of_series(word: pd.Series) -> pd.Series:
    return pd.Series([letter for text in word.dropna() for letter in text], dtype=object)


def both_in_a_frame(df: pd.DataFrame) -> pd.DataFrame:
    said = [f"{None if pd.isna(word) else word}!" for word in df["word"]]
    return pd.DataFrame({0: said, 1: df["n"]})  # by position: the output fields have any names


def even_series(n: pd.Series) -> pd.Series:
    return n.notna() & (n % 2 == 0)


def some_in_a_frame(df: pd.DataFrame) -> pd.Series:
    return df["word"].notna() & (df["word"] != "")


PANDAS = {
    "length": length_of_series,
    "twice": twice_a_series,
    "letters": letters_of_series,
    "both": both_in_a_frame,
    "even": even_series,
    "some": some_in_a_frame,
}
"""The same over whole columns."""


def total_of_series(n: pd.Series) -> int:
    return n.sum()


def spread_of_series(n: pd.Series) -> float:
    return n.max() - n.min()


class Adding:
    """A reducer: from a hundred on."""

    outputType = "long"

    def init(self) -> int:
        return 100

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + (tuple[0] or 0)


class Seen:
    """An aggregator that emits each text once, in order: none, one, or several tuples."""

    outputType = "string"

    def init(self, batchId: Any, collector: Any) -> set[str]:
        return set()

    def aggregate(self, state: set[str], tuple: Any, collector: Any) -> None:
        if tuple[0]:
            state.add(tuple[0])

    def complete(self, state: set[str], collector: Any) -> None:
        for word in sorted(state):
            collector.emit([word])


class Balance:
    """Over several grouped streams: what the first brings less what the others bring."""

    def init(self, collector: Any, group: Any) -> list[int]:
        return [0]

    def execute(self, state: list[int], streamIndex: int, group: Any, tuple: Any, collector: Any) -> None:
        state[0] += (tuple[0] or 0) * (1 if streamIndex == 0 else -1)

    def complete(self, state: list[int], group: Any, collector: Any) -> None:
        collector.emit([group[0], state[0]])


class Longest:
    """A combiner of one's own."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return tuple[0] or ""

    def combine(self, a: str, b: str) -> str:
        return max(a, b, key=lambda word: (len(word), word))

    def zero(self) -> str:
        return ""
