"""The results of a stage: tables, or files that executors wrote."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import pyarrow as pa

from trident.base.user_code_notes import Notes


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """One file of a large result. An executor has written and fsynced it. `name` is relative to the attempt's folder.

    `checksum` is the CRC32 of its bytes.
    """

    name: str
    bytes: int
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class FrozenFiles:
    """A large result by reference: the exact list of its files. `folder` is relative to the root of the run's files."""

    folder: str
    files: tuple[FrozenFile, ...]
    schema: pa.Schema

    @property
    def num_rows(self) -> int:
        """The number of rows; `pa.Table` has the same property."""
        return sum(file.rows for file in self.files)


Result: TypeAlias = pa.Table | FrozenFiles


@dataclass(frozen=True, slots=True)
class StepWork:
    """The work of one step in one run of its stage: the numbers of its input and output tuples, and its seconds.

    None: Spark ran the step together with others, and the number is not known.
    """

    step: str
    entered: int | None
    left: int | None
    seconds: float | None
    notes: Notes | None = None
    """The counters and warnings of the user's function."""


class DebugTuples(NamedTuple):
    """The first tuples of a batch that a Debug step shows."""

    label: str
    tuples: pa.Table
    more: bool
    """True if the batch had further tuples, which are left out."""

    @classmethod
    def first(cls, label: str, tuples: pa.Table, limit: int) -> "DebugTuples":
        """Return the first `limit` of these tuples."""
        return cls(label, tuples.slice(0, limit), tuples.num_rows > limit)


@dataclass(frozen=True, slots=True)
class StageResult:
    """The results of a stage in one attempt."""

    results: Mapping[str, Result]
    """The results by the names of the stage's outputs. Dead letters have an entry only if there are some."""
    rows: int | None = None
    """The number of tuples that the stage read; None if it is not known."""
    shown: Sequence[DebugTuples] = ()
    """The tuples that Debug steps show."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """For each step with failures under ``onError="skip"``, the number of skipped tuples."""
    steps: tuple[StepWork, ...] = ()
    """The work of each step, in the order in which they ran."""
    engine: str = ""
    """The engine that ran the stage, if the run has several; otherwise ""."""
