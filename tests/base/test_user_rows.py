"""Rows of users: an iterator that ends because a function of it raised StopIteration is an error, never fewer rows."""

import collections
import csv
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy
import pyarrow as pa
import pytest

from trident.base.user_rows import add_rows, all_rows, checked_rows


class Countdown:
    """An iterator in Python, whose end is a StopIteration of its own."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __iter__(self) -> Iterator[int]:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


class Renamed(Countdown):
    def advance(self) -> int:
        return super().__next__()

    __next__ = advance


def letters(text: str) -> str:
    return next(iter(text))  # an empty text lets the StopIteration out


def ok(number: int) -> int:
    return number + 1


ENDS: dict[str, tuple[Callable[[], Iterable[Any]], int]] = {
    "list": (lambda: [1, 2], 2),
    "generator": (lambda: (number for number in range(3)), 3),
    "array": (lambda: numpy.arange(3), 3),
    "deque": (lambda: collections.deque([1]), 1),
    "nothing": (lambda: map(ok, []), 0),
    "map": (lambda: map(ok, range(3)), 3),
    "map of a generator": (lambda: map(ok, (number for number in range(3))), 3),
    "iterator in Python": (lambda: Countdown(3), 3),
    "iterator in Python by another name": (lambda: Renamed(3), 3),
    "map of an iterator in Python": (lambda: map(ok, Countdown(3)), 3),
    "zip of unequal ones": (lambda: zip(range(3), Countdown(2), strict=False), 2),
    "chain": (lambda: itertools.chain(Countdown(2), [1]), 3),
    "rows of CSV": (lambda: map(dict, csv.DictReader(["a", "1", "2"])), 2),
    "batches of Arrow, by Cython": (lambda: pa.table({"a": [1, 2]}).to_reader(max_chunksize=1), 2),
    "map of batches of Arrow": (lambda: map(ok_batch, pa.table({"a": [1, 2]}).to_reader(max_chunksize=1)), 2),
    "calls up to a value": (lambda: iter(Countdown(5).__next__, 1), 3),
}

LET_OUT: dict[str, Callable[[], Iterable[Any]]] = {
    "map": lambda: map(letters, ["a", "", "b"]),
    "map, the last row": lambda: map(letters, ["a", ""]),
    "map, the only row": lambda: map(letters, [""]),
    "map of a generator": lambda: map(letters, (text for text in ("a", "", "b"))),
    "filter": lambda: filter(letters, ["a", "", "b"]),
    "zip": lambda: zip(map(letters, ["a", "", "b"]), "xyz", strict=False),
    "starmap": lambda: itertools.starmap(letters, [("a",), ("",)]),
    "map in a map": lambda: map(str.upper, map(letters, ["a", "", "b"])),
    "map of an object": lambda: map(Letters(), ["a", "", "b"]),
    "iterable of a map": lambda: Mapped(["a", "", "b"]),
}


class Letters:
    def __call__(self, text: str) -> str:
        return letters(text)


class Mapped:
    def __init__(self, texts: list[str]) -> None:
        self.texts = texts

    def __iter__(self) -> Iterator[str]:
        return map(letters, self.texts)


def ok_batch(batch: pa.RecordBatch) -> int:
    return batch.num_rows


@pytest.mark.parametrize("case", ENDS)
def test_all_rows_up_to_the_end(case: str) -> None:
    make, count = ENDS[case]
    expected = list(make())
    assert len(expected) == count
    copies: list[Any] = []
    add_rows(copies, make(), own=True)
    assert all_rows(make()) == list(checked_rows(make())) == copies == expected


@pytest.mark.parametrize("case", LET_OUT)
@pytest.mark.parametrize(
    "take", [all_rows, lambda rows: add_rows([], rows, own=True), lambda rows: list(checked_rows(rows))]
)
def test_a_function_that_raises_stop_iteration_does_not_end_the_rows(case: str, take: Any) -> None:
    with pytest.raises(
        RuntimeError, match=r"\w+ \(test_user_rows.py:\d+\) raised StopIteration, which ends a "
    ) as caught:
        take(LET_OUT[case]())
    assert "before its last row: catch it in the function, or write next(iterator, None)" in str(caught.value)


def test_rows_before_the_failing_one_are_there() -> None:
    collected: list[Any] = []
    with pytest.raises(RuntimeError):
        add_rows(collected, map(letters, ["a", "b", "", "c"]))
    assert collected == ["a", "b"]


def test_an_iterator_may_fill_one_row_again() -> None:
    row = [0]

    def filled(number: int) -> list[int]:
        row[0] = number
        return row

    copies: list[Any] = []
    add_rows(copies, map(filled, range(3)), own=True)
    assert copies == [[0], [1], [2]]
