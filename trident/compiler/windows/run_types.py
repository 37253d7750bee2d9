"""The types that steps of windows share: the functions that run them, and the batch that such a function gets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from trident.compiler.states.overlay import Stored
from trident.compiler.states.updates import Updated


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """One batch as the update of a state sees it.

    `time` returns when the batch was planned, in seconds since 1970, the same at every replay. `watermark` is the state
    of the step's watermark, as the batch before left it; None where the step has no watermark. A join has two, of its
    left stream and, as `second`, of its right one.
    """

    txid: int
    time: Callable[[], float]
    watermark: Stored | None
    second: Stored | None = None

    @property
    def watermarks(self) -> list[Stored]:
        """The states of the step's watermarks."""
        return [stored for stored in (self.watermark, self.second) if stored is not None]


RunWindow = Callable[[pa.Table, Stored, WindowBatch], Updated]
"""A function from the tuples that enter a window's step, the state before the batch, and the batch to the result."""

RunJoin = Callable[[Sequence[pa.Table], Stored, WindowBatch], Updated]
"""The same for a step with several sources: the tuples of each enter."""

RunLate = Callable[[pa.Table, WindowBatch], pa.Table]
"""A function from all tuples that may enter a window in a batch, and the batch, to the late tuples."""
