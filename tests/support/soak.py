"""Soaks: what takes too long for `make test`. `make soak` says for how many minutes they run.

A test that is marked `soak` runs only where SOAK_MINUTES is set. There are two kinds, and both run in an order that the
seed draws:

- Soaks of a fixed length come first. When they have used their part of the minutes, the others of them are skipped.
- Soaks that take the fixture `soak` go on for as long as they may. They share the minutes that are left by the weight
  that each gives its mark, in pieces that are large enough to find something. When nothing is left, the others are
  skipped.

So a run takes the minutes, and at most one soak of a fixed length and one case of a soak that draws longer. Another
seed runs other soaks. SOAK_MINUTES=0 sets no end: everything runs, and each soak that draws does everything it knows,
or its full number of draws where there is no everything.
"""

import os
import random
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from math import inf
from typing import Any

import pytest

_MINUTES = os.environ.get("SOAK_MINUTES")
FIXED = 2 / 3
"""The part of the minutes within which soaks of a fixed length may begin, where others follow."""
LEAST = 30.0
"""Seconds for each unit of weight, below which it is not worth a start: a soak that draws gets them where possible."""


def some_of(cases: Iterable[Any], normal: Collection[Any]) -> list[Any]:
    """Return a test's cases for `parametrize`, those that are not `normal` as soaks."""
    cases = list(cases)
    assert normal and all(case in cases for case in normal), f"{normal} must be some of {cases}"
    return [case if case in normal else pytest.param(case, marks=pytest.mark.soak) for case in cases]


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
        """Put soaks behind all other tests, in drawn order, those that share the time last; remember their weights."""
        self.weights = {item.nodeid: weight(item) for item in items if shares(item)}
        items.sort(key=lambda item: (is_soak(item), shares(item), self._place(item.nodeid) if is_soak(item) else 0))

    def _place(self, test: str) -> float:
        """Draw a soak's place; of its own, so that a new soak does not change the order of the others."""
        return random.Random(f"{self.seed}/{test}").random()

    def late(self, test: str) -> bool:
        """Return whether this soak may not begin any more."""
        fixed = test not in self.weights
        return self._left(FIXED if fixed and self.weights else 1.0) <= 0

    def _left(self, part: float = 1.0) -> float:
        """Return the seconds that are left of this part of the minutes; infinite without an end."""
        return self.began + 60 * self.minutes * part - time.monotonic() if self.minutes else inf

    def share(self, test: str) -> float:
        """Return the seconds that this test may take from now on; infinite without an end."""
        part = self.weights.pop(test)
        left = max(0.0, self._left())
        if left == inf:
            return inf
        return min(left, max(LEAST * part, left * part / (part + sum(self.weights.values()))))

    def __str__(self) -> str:
        again = f"make soak MINUTES={self.minutes:g} SEED={self.seed}"
        return f"{self.minutes:g} minutes (0: no end), seed {self.seed}; the same draws again: {again}"


def is_soak(item: pytest.Item) -> bool:
    return item.get_closest_marker("soak") is not None


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
