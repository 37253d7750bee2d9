"""Functions that the tests' topologies call, in a module that the workers import."""

import datetime
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trident import FailedException, Filter, Function


def split(line: str) -> Iterator[str]:
    yield from line.split()


def lengths(word: str) -> tuple[int, str]:
    return len(word), word[:1]


def half(n: int) -> float:
    return n / 2


def even(n: int) -> bool:
    return n % 2 == 0


def boom_at_dog(word: str) -> str:
    if word == "dog":
        raise ValueError("no dogs here")
    return word


def fail_at_dog(word: str) -> str:
    if word == "dog":
        raise FailedException("try this batch again")
    return word


def stop_at_dog(word: str) -> str:
    return word if word != "dog" else next(iter(()))  # a StopIteration out of a plain function


def an_hour_later(at: datetime.datetime) -> datetime.datetime:
    assert at.tzinfo is not None
    return at + datetime.timedelta(hours=1)


class Spell(Function):
    """Emits every letter with its position; nothing for an empty word."""

    outputType = "string, int"

    def execute(self, tuple: Any, collector: Any) -> None:
        for place, letter in enumerate(tuple.word):
            collector.emit([letter, place])


class Long(Filter):
    """Words of four letters and more."""

    def isKeep(self, tuple: Any) -> bool:
        return len(tuple.word) > 3


class Longest:
    """The longest word, the later in the alphabet of two equally long ones."""

    outputType = "string"

    def init(self, tuple: Any) -> str:
        return str(tuple[0])

    def combine(self, a: str, b: str) -> str:
        return max(a, b, key=lambda word: (len(word), word))

    def zero(self) -> str:
        return ""


class Mean:
    """Keeps sum and count, and shows the mean."""

    outputType = "struct<total: double, count: bigint>"
    presentType = "double"

    def init(self, tuple: Any) -> tuple[float, int]:
        return float(tuple[0]), 1

    def combine(self, a: Any, b: Any) -> tuple[float, int]:
        return a[0] + b[0], a[1] + b[1]

    def zero(self) -> tuple[float, int]:
        return 0.0, 0

    def present(self, acc: Any) -> float | None:
        return acc[0] / acc[1] if acc[1] else None


class Tally:
    """Count, but in Python only."""

    outputType = "bigint"

    def init(self, tuple: Any) -> int:
        return 1

    def combine(self, a: int, b: int) -> int:
        return a + b

    def zero(self) -> int:
        return 0


class CountedCalls:
    """Appends a mark to a file at each call, so that calls in workers can be counted."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __call__(self, word: str) -> str:
        with open(self.file, "a") as marks:
            marks.write("x")
        return word

    @property
    def calls(self) -> int:
        return len(Path(self.file).read_text()) if Path(self.file).exists() else 0


class Waiter:
    """Touches a file when it is called, and waits for ten minutes at most until there is a second one, `.over`."""

    def __init__(self, file: Path) -> None:
        self.file = str(file)

    def __call__(self, word: str) -> str:
        Path(self.file).touch()
        deadline = time.monotonic() + 600
        while not Path(f"{self.file}.over").exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return word


def sometimes(n: int) -> int:
    """Fails on other tuples each time it is called."""
    if random.random() < 0.5:
        raise ValueError("this time")
    return n
