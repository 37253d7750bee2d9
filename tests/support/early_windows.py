"""A model of early results: it keeps all tuples, and computes all windows anew after each batch. Times are seconds."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trident import SessionWindow
from trident.base.change_kinds import ADDS

Row = tuple[str | None, float | None, int]
"""A group, a time and a number."""

Bounds = tuple[float, float, Any]
"""A window of a group: its start, its end, and the group; () if there are no groups."""

SECOND = 1_000_000


@dataclass
class Windows:
    """The windows of a stream, with the numbers of their tuples in the order of the tuples' times."""

    config: Any
    grouped: bool = True
    mark: float | None = None
    _inside: list[tuple[float, int, Bounds, int]] = field(default_factory=list)
    """The tuples of windows by time: time, order of arrival, window, number."""
    _pool: list[tuple[float, int, Any, int]] = field(default_factory=list)
    """The tuples of open sessions: time, order of arrival, group, number."""
    _closed: dict[Bounds, list[int]] = field(default_factory=dict)
    _came: int = 0

    def add(self, rows: Iterable[Row], now: float = 0.0) -> "Windows":
        """Take a batch whose time is `now`."""
        rows, before, config = list(rows), self.mark, self.config
        by_event = config.timestampField is not None
        times = [at - config.lateness / SECOND for _, at, _ in rows if at is not None] if by_event else [now]
        self.mark = max([*times, *([] if before is None else [before])], default=None)
        for key, at, n in rows:
            self._came += 1
            at = at if by_event else self.mark
            if at is not None:
                self._take(at, (key,) if self.grouped else (), n, before)
        self._close()
        return self

    def _take(self, at: float, group: Any, n: int, before: float | None) -> None:
        config = self.config
        if isinstance(config, SessionWindow):
            if before is None or at + config.gap / SECOND > before:
                self._pool.append((at, self._came, group, n))
            return
        length, slide = config.length / SECOND, config.slide / SECOND
        start = at // slide * slide
        while start + length > at:
            if before is None or start + length > before:
                self._inside.append((at, self._came, (start, start + length, group), n))
            start -= slide

    def _close(self) -> None:
        """Set the sessions aside that no further tuple may enter."""
        for (start, end, group), tuples in self._sessions().items():
            if self.mark is not None and end <= self.mark:
                self._closed[start, end, group] = [n for *_, n in tuples]
                self._pool = [one for one in self._pool if one not in tuples]

    def _sessions(self) -> dict[Bounds, list[Any]]:
        by_group = defaultdict(list)
        for one in sorted(self._pool):
            by_group[one[2]].append(one)
        found: dict[Bounds, list[Any]] = {}
        for group, tuples in by_group.items():
            gap, runs = self.config.gap / SECOND, [[tuples[0]]]
            for one in tuples[1:]:
                if one[0] - runs[-1][-1][0] < gap:
                    runs[-1].append(one)
                else:
                    runs.append([one])
            found |= {(run[0][0], run[-1][0] + gap, group): run for run in runs}
        return found

    def now(self) -> dict[Bounds, list[int]]:
        """Return the numbers in each window that was ever open."""
        found: dict[Bounds, list[int]] = defaultdict(list)
        for *_, window, n in sorted(self._inside, key=lambda one: one[:2]):
            found[window].append(n)
        open_ = {window: [n for *_, n in tuples] for window, tuples in self._sessions().items()}
        return {**found, **self._closed, **open_}

    def rows(self, fold: Callable[[Sequence[int]], Any]) -> Counter[Any]:
        """Return the results: start, end, group and the value of `fold`."""
        return Counter((start, end, *group, fold(ns)) for (start, end, group), ns in self.now().items())


def follow(rows: Counter[Any], changes: Iterable[tuple[Any, ...]]) -> None:
    """Apply a batch's changes to rows. A row that is taken away must be there; images of an update come together."""
    before: tuple[Any, ...] | None = None
    for *values, kind in changes:
        row = tuple(map(hashable, values))
        assert (kind == "update_postimage") is (before is not None)
        assert row != before, "a change that changes nothing"
        before = row if kind == "update_preimage" else None
        if kind in ADDS:
            rows[row] += 1
        else:
            assert rows[row] > 0, f"{row} is taken away, and is not there"
            rows[row] -= 1
    assert before is None
    for row in [row for row, count in rows.items() if not count]:
        del rows[row]


def hashable(value: Any) -> Any:
    """Return a value, a list as a tuple."""
    return tuple(value) if isinstance(value, list) else value
