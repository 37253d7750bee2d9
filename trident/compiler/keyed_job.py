"""The update of a state by Spark's workers, key by key: its input, the expected output, and its result."""

import math
from dataclasses import dataclass

import pyarrow as pa

from trident.compiler.keyed_updates import KeyedUpdate
from trident.compiler.states.update_types import Clock
from trident.frozen.files import FileFolder
from trident.frozen.results import FrozenFiles
from trident_spouts.shared_reading import SharesEmission
from trident_state.store import SharedSnapshot

TASK_ROWS = 1 << 17
"""The average number of tuples and due keys of a task. A worker holds them as Python objects."""


@dataclass(frozen=True, slots=True)
class KeyedResult:
    """The results of an update by reference. `emitted` is None if no step reads the tuples that the update emits."""

    puts: FrozenFiles
    emitted: FrozenFiles | None
    dropped: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """The files that an update must write: their folder, the fields of the puts, and the fields of the emitted tuples.

    `emitted` is None if no step reads these tuples.
    """

    folder: FileFolder
    puts: pa.Schema
    emitted: pa.Schema | None


@dataclass(frozen=True, slots=True)
class KeyedJob:
    """The update of a state by the tuples of one batch, which was planned at `time`.

    `clock` are the watermarks of an update by event time, `due` is the number of keys that are due by these watermarks.
    """

    update: KeyedUpdate
    tuples: SharesEmission
    snapshot: SharedSnapshot
    txid: int
    time: float
    wanted: Wanted
    clock: Clock | None = None
    due: int = 0

    @property
    def tag(self) -> str:
        """The tag of the job in Spark. No other job of the session has this tag."""
        return f"trident-{self.wanted.folder.folder.replace(',', '_')}"

    @property
    def tasks(self) -> int:
        """The number of tasks among which the keys are divided."""
        rows = self.tuples.rows
        return len(self.tuples.shares) if rows is None else max(1, math.ceil((rows + self.due) / TASK_ROWS))

    @property
    def parts(self) -> int:
        """The number of first tasks: one for each part of the tuples, and for each group of the state with due keys."""
        return len(self.tuples.shares) + (0 if self.clock is None else self.snapshot.groups)

    @property
    def outputs(self) -> tuple[pa.Schema, ...]:
        """The fields of the puts and, if a step reads them, of the emitted tuples."""
        return tuple(schema for schema in (self.wanted.puts, self.wanted.emitted) if schema is not None)
