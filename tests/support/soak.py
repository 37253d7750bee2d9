"""Soaks: tests that draw their cases at random and go on for as long as they may. `make soak` says for how long.

A test that is marked `soak` runs only where SOAK_MINUTES is set. Those that take the fixture `soak` run last: what the
others left of the minutes is shared between them, by the weight that each gives its mark. SOAK_MINUTES=0 sets no end:
each does everything it knows, or its full number of draws where there is no everything.
"""

import os
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import inf

import pytest

_MINUTES = os.environ.get("SOAK_MINUTES")


@dataclass
class Budget:
    """The time of one run of soaks."""

    minutes: float
    seed: int
    weights: dict[str, float] = field(default_factory=dict)
    """Of the tests that share what is left and have not begun, by node id."""
    began: float = field(default_factory=time.monotonic)

    @classmethod
    def asked(cls) -> "Budget | None":
        """Return the budget that the environment asks for; None: no soaks."""
        if not _MINUTES:
            return None
        return cls(float(_MINUTES), int(os.environ.get("SOAK_SEED") or time.time()))

    def order(self, items: list[pytest.Item]) -> None:
        """Put the tests that share the time behind all others, and remember their weights."""
        self.weights = {item.nodeid: weight(item) for item in items if shares(item)}
        items.sort(key=shares)

    def share(self, test: str) -> float:
        """Return the seconds that this test may take from now on; infinite without an end."""
        part = self.weights.pop(test)
        if not self.minutes:
            return inf
        left = max(0.0, self.began + 60 * self.minutes - time.monotonic())
        return left * part / (part + sum(self.weights.values()))

    def __str__(self) -> str:
        again = f"make soak MINUTES={self.minutes:g} SEED={self.seed}"
        return f"{self.minutes:g} minutes (0: no end), seed {self.seed}; the same draws again: {again}"


def shares(item: pytest.Item) -> bool:
    """Whether this test goes on for as long as it may."""
    return "soak" in getattr(item, "fixturenames", ())


def weight(item: pytest.Item) -> float:
    """Return the weight in this test's mark; 1 without one."""
    mark = item.get_closest_marker("soak")
    assert mark is not None, f"{item.nodeid} takes the fixture soak and needs the mark"
    return float(mark.kwargs.get("weight", 1))


@dataclass(frozen=True)
class Soak:
    """The seed and the seconds of one soak."""

    seed: int
    seconds: float
    tell: Callable[[str], None]
    """Print a line past pytest's capture."""

    def draws(self, full: int) -> Iterator[random.Random]:
        """Yield a source of chance for each case.

        There is at least one. It ends when another case as long as the longest so far would take too long; without a
        time limit after `full` cases.
        """
        until, longest = time.monotonic() + self.seconds, 0.0
        for number in range(full if self.seconds == inf else 1_000_000_000):
            began = time.monotonic()
            yield random.Random(f"{self.seed}/{number}")
            longest = max(longest, time.monotonic() - began)
            if time.monotonic() + longest > until:
                break
        self.tell(f"{number + 1} drawn from seed {self.seed}")
