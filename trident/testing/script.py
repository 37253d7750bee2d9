"""The script of a test source: its batches, the marks between them, and which marks were passed."""

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.errors import SpoutContractError
from trident.base.user_rows import checked_rows
from trident.testing.crashes import check_point
from trident_spouts.rows import table_of


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark in the script of a `TestSource`. It takes effect when the source reaches it."""

    name: str
    point: str | None = None
    """The crash point in ``CRASH.at(point)``."""

    def at(self, point: str) -> "Mark":
        """Return a CRASH that happens at a crash point (one of `CRASH_POINTS`) instead of in the source.

        >>> CRASH.at("commit.state.after")
        CRASH.at('commit.state.after')
        """
        if self.name != "CRASH":
            raise TypeError(f"{self} has no point; write CRASH.at(point)")
        return Mark(self.name, check_point(point))

    def __repr__(self) -> str:
        return self.name if self.point is None else f"{self.name}.at({self.point!r})"


FAIL = Mark("FAIL")
"""The attempt at the batch after this mark fails once. The kind of the source decides which rows the replay has."""

CRASH = Mark("CRASH")
"""The driver dies once, when the source must emit the batch after this mark. With ``CRASH.at(point)`` it dies at that
point."""

PAUSE = Mark("PAUSE")
"""The source has no further batch until the test calls `TestSource.resume`."""

END = Mark("END")
"""The source has no further batch in this run. The next start continues after this mark."""

_MarkId = tuple[int, int]
"""The number of the batch after a mark, and the mark's number among the marks before that batch, both from 0."""


class Script:
    """Batches with marks between them, and the progress of a program's runs through them. Any thread may call."""

    def __init__(self, schema: StructType, parts: Iterable[Any]) -> None:
        if isinstance(parts, str | bytes | pa.Table | pa.RecordBatch) or not isinstance(parts, Iterable):
            raise SpoutContractError(
                f"TestSource takes a list of batches and marks, not one {type(parts).__name__}; "
                f"write [batch, FAIL, batch]"
            )
        self.batches: list[pa.Table] = []
        self.marks: list[list[Mark]] = [[]]
        """For each batch the marks before it; the last item has the marks after the last batch."""
        for part in checked_rows(parts):
            if isinstance(part, Mark):
                self.marks[-1].append(part)
            else:
                self.batches.append(table_of(part, schema, f"TestSource, batch {len(self.batches)}"))
                self.marks.append([])
        if FAIL in self.marks[-1]:
            raise SpoutContractError(
                "TestSource: a FAIL at the end has no effect: it makes an attempt at the next batch fail"
            )
        self.handed_out = 0
        """The number of batches handed out for emission. A non-transactional source emits no such batch again."""
        self._lock = threading.Lock()
        self._passed: set[_MarkId] = set()
        self._ends_reached: set[_MarkId] = set()
        """The ENDs that this run reached. The next run begins after them."""
        self._resumes = 0

    def begin_run(self) -> None:
        """Mark the ENDs that the previous run reached as passed."""
        with self._lock:
            self._passed |= self._ends_reached
            self._ends_reached.clear()

    def resume(self) -> None:
        """Let the source pass the PAUSE at which it waits, or the next PAUSE."""
        with self._lock:
            self._resumes += 1

    def may_plan(self, batch: int, arm: Callable[[str], None]) -> bool:
        """Pass the marks before a batch that do not delay it. Return whether the batch can be planned.

        A FAIL and a CRASH are left to `emit`. `arm` is called with the crash point of each ``CRASH.at``.
        """
        with self._lock:
            for position, mark in self._open(batch):
                if mark.point is not None:
                    arm(mark.point)
                elif mark is CRASH:  # also after the last batch; then the planned batch is never emitted
                    return True
                elif mark is END:
                    self._ends_reached.add(position)
                    return False
                elif mark is PAUSE and not self._resumes:
                    return False
                elif mark is PAUSE:
                    self._resumes -= 1
                else:  # a FAIL waits for the emission
                    continue
                self._passed.add(position)
        return batch < len(self.batches)

    def emit(self, batch: int) -> Mark | None:
        """Record that a batch is about to be emitted.

        Pass the next FAIL or CRASH before it, and return that mark, or None.
        """
        with self._lock:
            self.handed_out = max(self.handed_out, batch + 1)
            for position, mark in self._open(batch):
                if mark in (FAIL, CRASH):
                    self._passed.add(position)
                    return mark
        return None

    def _open(self, batch: int) -> list[tuple[_MarkId, Mark]]:
        """Return the marks before a batch that have not been passed yet, each with its id."""
        marks = self.marks[batch] if batch < len(self.marks) else []
        return [((batch, at), mark) for at, mark in enumerate(marks) if (batch, at) not in self._passed]
