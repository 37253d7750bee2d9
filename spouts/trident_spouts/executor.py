"""What the engine asks of every spout: one protocol for all kinds.

The life of a batch, seen from here: ``plan`` gives the metadata that names the batch, the log takes it, ``emit`` turns
it into tuples (again and again, if attempts fail), and when the batch is committed ``success`` lets old things go.
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
"""What names a batch, as JSON: the log keeps it."""


class SpoutKind(enum.Enum):
    """The promise that a spout makes of a replay (Trident's three kinds)."""

    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"
    NON_TRANSACTIONAL = "nonTransactional"


class Emission(Protocol):
    """The tuples of one attempt, not yet read: by reference where they are large."""

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a new DataFrame of exactly these tuples. `scratch` is a folder of this attempt, deleted after it."""
        ...

    def arrow(self) -> pa.Table:
        """Return the same tuples in the driver's memory, for small batches and tests."""
        ...

    @property
    def rows(self) -> int | None:
        """Return how many tuples there are, if that is known without reading them."""
        ...

    @property
    def digest(self) -> str | None:
        """Return a checksum of these tuples, the same in every process; None where they are read by reference."""
        ...

    @property
    def after(self) -> Metadata:
        """Return where the source stands after this batch, if only emission could tell (then `plans_ahead` is False);
        else None. It becomes part of what is frozen, and the next plan's `previous`."""
        ...


class SpoutExecutor(Protocol):
    """A spout at work in one run. Called by one thread at a time. A class that extends it may leave out what does
    nothing: `success`, `fail` and `close`."""

    @property
    def plans_ahead(self) -> bool:
        """Return whether the next batch can be planned from this batch's metadata, before it was emitted."""
        ...

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float) -> Metadata:
        """Return the metadata that names the batch of this attempt; None where there is no batch (an idle source).

        `previous` is the metadata of the batch before (its `after` where that is not None), None for the first batch.
        A second call for the same batch may name other tuples. What is frozen in the end counts.
        """
        ...

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        """Return the tuples that `metadata` names. A transactional spout gives the same at every attempt."""
        ...

    def success(self, txid: int, metadata: Metadata) -> None:
        """Let go of what a replay would need: every batch up to and including `txid` is committed. Repeated after a
        restart; must be idempotent."""
        return None

    def fail(self, attempt: TransactionAttempt) -> None:
        """Give up this attempt, which came to nothing. The batch will be emitted again."""
        return None

    def close(self) -> None:
        """Let go of connections and files."""
        return None


class Spout(Protocol):
    """A frozen, picklable description of a source, as users write it. Nothing is opened before the topology starts."""

    @property
    def kind(self) -> SpoutKind: ...

    @property
    def schema(self) -> StructType:
        """Return the fields of its tuples. This may look at the source (a Parquet footer)."""
        ...

    def open(self) -> SpoutExecutor:
        """Begin to work for one run."""
        ...
