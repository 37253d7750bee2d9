"""The types that steps of windows share: their functions, and the batch that these get in the commit turn."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from trident.compiler.states.overlay import Stored
from trident.compiler.states.updates import Updated


@dataclass(frozen=True, slots=True)
class WindowBatch:
    """One batch as the step of a window sees it.

    `time` returns when the batch was planned, in seconds since 1970, the same at every replay. `watermark` is the
    window's, as the batch before left it; None where the window has none.
    """

    txid: int
    time: Callable[[], float]
    watermark: Stored | None


RunWindow = Callable[[pa.Table, Stored, WindowBatch], Updated]
"""A function from the tuples that enter, the state before the batch, and the batch to the update."""

RunLate = Callable[[pa.Table, WindowBatch], pa.Table]
"""A function from all tuples of the batch to the late ones."""
