"""The results of a stage: tables, or files that the executors wrote."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class FrozenFile:
    """A part of a large result, which an executor wrote and fsynced: its name in the attempt's folder, sizes, CRC32."""

    name: str
    bytes: int
    rows: int
    checksum: int


@dataclass(frozen=True, slots=True)
class FrozenFiles:
    """A large result by reference: the exact list of its files in `folder`, which is relative to the checkpoint."""

    folder: str
    files: tuple[FrozenFile, ...]
    schema: pa.Schema

    @property
    def num_rows(self) -> int:
        """The number of rows; `pa.Table` has the same property."""
        return sum(file.rows for file in self.files)


Result: TypeAlias = pa.Table | FrozenFiles


@dataclass(frozen=True, slots=True)
class StageResult:
    """What a stage gave in one attempt."""

    results: Mapping[str, Result]
    """The results by the names of the outputs. An optional output without rows may be missing."""
    rows: int | None = None
    """The number of tuples that the stage read, where that is known."""
    debug: Mapping[str, pa.Table] = field(default_factory=dict)
    """The tuples that Debug steps show, by label."""
    skipped: Mapping[str, int] = field(default_factory=dict)
    """The number of tuples that each step left out because its function failed on them."""
