"""The protocol of every spout, of whatever kind, towards the engine.

For each batch the engine calls ``plan``, which gives the metadata that names the batch, then ``emit``, which turns the
metadata into tuples. It calls ``emit`` again when an attempt failed, and ``success`` when the batch is committed.
"""

import enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Metadata = None | bool | int | float | str | list[Any] | dict[str, Any]
"""The name of a batch, as JSON. The log keeps it."""


class SpoutKind(enum.Enum):
    """The promise that a spout makes of a replay (Trident's three kinds)."""

    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"
    NON_TRANSACTIONAL = "nonTransactional"


class Emission(Protocol):
    """The tuples of one attempt, not yet read: by reference where they are large."""

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a new DataFrame of exactly these tuples. `scratch` is a folder that is deleted after this attempt."""
        ...

    def arrow(self) -> pa.Table:
        """Return the same tuples in the driver's memory, for small batches and tests."""
        ...

    @property
    def rows(self) -> int | None:
        """Return the number of tuples, if it is known without reading them."""
        ...

    @property
    def digest(self) -> str | None:
        """Return a checksum of these tuples, the same in every process; None where they are read by reference."""
        ...

    @property
    def after(self) -> Metadata:
        """Return the source's position after this batch, where only the emission knows it; else None.

        `plans_ahead` is False for such a source. The position is frozen with the batch, and is the `previous` of the
        next plan.
        """
        ...


class SpoutExecutor(Protocol):
    """A spout at work in one run. One thread at a time calls it.

    A class that extends it may leave out `success`, `fail` and `close` where they would do nothing.
    """

    @property
    def plans_ahead(self) -> bool:
        """Return whether the next batch can be planned from this batch's metadata, before it was emitted."""
        ...

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        """Return the metadata that names the batch of this attempt; None for no batch (an idle source).

        `previous` is the metadata of the batch before (its `after` where that is not None), None for the first batch.
        A second call for the same batch may name other tuples: only the plan that is frozen counts.
        """
        ...

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        """Return the tuples that `metadata` names. A transactional spout returns the same tuples at every attempt."""
        ...

    def success(self, txid: int, metadata: Metadata) -> None:
        """Release what only a replay would need: every batch up to and including `txid` is committed.

        The call is repeated after a restart, so it must be idempotent.
        """
        return  # without it mypy takes the method for abstract; the same below

    def fail(self, attempt: TransactionAttempt) -> None:
        """Drop what belongs to this failed attempt. The batch will be emitted again."""
        return

    def close(self) -> None:
        """Release connections and files."""
        return


class Spout(Protocol):
    """A frozen, picklable description of a source, as users write it. Nothing is opened before the topology starts."""

    @property
    def kind(self) -> SpoutKind: ...

    @property
    def schema(self) -> StructType:
        """Return the fields of its tuples. This may look at the source (a Parquet footer)."""
        ...

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        ...
