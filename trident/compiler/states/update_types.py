"""The types that steps of windows share: the functions that run them, and the batch that these functions get."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from trident.compiler.states.overlay import Stored
from trident.compiler.states.updates import InState, Updated


@dataclass(frozen=True, slots=True)
class Clock:
    """A window's watermarks over one batch: before it and after it, in microseconds since 1970.

    `wakes` gives the batch time at which the watermark reaches a time while no tuple comes; None if it does not move
    then.
    """

    before: int
    after: int
    wakes: InState | None = None

    def due(self, time: int | None) -> int | None:
        """Return the batch time at which the watermark reaches `time` while no tuple comes; None if it never does."""
        return None if time is None or self.wakes is None else self.wakes.at(time)


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """One batch in the form in which the update of a state sees it.

    `time` returns when the batch was planned, in seconds since 1970, the same at every replay. `watermark` is the state
    of the step's watermark, as of the previous batch; None if the step has no watermark. A join has two: `watermark`
    is that of its left stream, `second` that of its right stream. `clock` is given if an update gets only a part of a
    batch's tuples, from which it cannot compute how the batch moves the watermark.
    """

    txid: int
    time: Callable[[], float]
    watermark: Stored | None
    second: Stored | None = None
    clock: Clock | None = None

    @property
    def watermarks(self) -> list[Stored]:
        """The states of the step's watermarks."""
        return [stored for stored in (self.watermark, self.second) if stored is not None]


RunWindow = Callable[[pa.Table, Stored, WindowBatch], Updated]
"""A function that runs a window's step. Its arguments are the input tuples, the state before the batch, the batch."""

RunJoin = Callable[[Sequence[pa.Table], Stored, WindowBatch], Updated]
"""A function like `RunWindow` for a step with several sources. Its first argument holds the tuples of each."""

RunLate = Callable[[pa.Table, WindowBatch], pa.Table]
"""A function that returns the late tuples. Its arguments are all tuples that may enter a window in a batch, and the
batch."""
