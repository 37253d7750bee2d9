"""What a window's step gets in the commit turn, and the way from a step to its function."""

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from trident.compiler.states.overlay import Stored
from trident.compiler.states.updates import Updated


@dataclass(frozen=True, slots=True)
class WindowTurn:
    """One batch. `time`: when it was planned, in seconds since 1970, the same at every replay; `watermark`: the
    window's, as the batch before left it (None where it has none)."""

    txid: int
    time: Callable[[], float]
    watermark: Stored | None


RunWindow = Callable[[pa.Table, Stored, WindowTurn], Updated]
"""From what enters, the state before the batch, and the batch."""

RunLate = Callable[[pa.Table, WindowTurn], pa.Table]
"""From all tuples of the batch to the late ones."""
