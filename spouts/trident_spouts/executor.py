"""The protocol of a spout: how a run calls every spout, of whatever kind.

For each batch the run calls ``plan``, which returns the metadata that names the batch, and then ``emit``, which turns
the metadata into tuples. It calls ``emit`` again if an attempt has failed, and ``success`` when the batch is committed.
"""

import enum
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.attempt import TransactionAttempt
from trident_spouts.budget import NO_LIMIT, Budget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Metadata = None | bool | int | float | str | list[Any] | dict[str, Any]
"""What a spout says a batch holds, as JSON: it names the batch. The log keeps it."""


class SpoutKind(enum.Enum):
    """What a spout promises for a replay of a batch (Trident's three kinds)."""

    TRANSACTIONAL = "transactional"
    OPAQUE = "opaque"
    NON_TRANSACTIONAL = "nonTransactional"


class WorkerReader(NamedTuple):
    """A way for Spark's Python workers to read an emission: each worker reads some shares of it."""

    numbers: "DataFrame"
    """A DataFrame with a row for each share: the share's number."""

    read: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
    """A picklable function that yields the tuples of the shares whose numbers are in the given batches."""

    schema: pa.Schema
    """The fields that `read` yields, in their order."""

    names: Sequence[str]
    """All fields of the emission's tuples, in any order: they must be the fields that the spout declares."""


class Emission(Protocol):
    """The tuples that a spout gives for one attempt: in memory, or as a reference to what Spark's workers will read.

    A class that extends Emission defines `dataframe`, `arrow` and `rows`, and may leave out the rest.
    """

    @property
    def rows(self) -> int | None:
        """Return the number of tuples; None if it is not known before they are read."""
        ...

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a new DataFrame of exactly these tuples. The folder `scratch` is deleted after the attempt."""
        ...

    def arrow(self) -> pa.Table:
        """Return the same tuples in the driver's memory, for small batches and tests."""
        ...

    @property
    def bytes(self) -> int | None:
        """Return how many bytes the tuples have in the source; None if that is not known before they are read.

        From it the run computes how large the next batch may be, if it was started with `targetBatchSecs`.
        """
        return None

    @property
    def digest(self) -> str | None:
        """Return a checksum of the tuples that is the same in every process; None if the emission is a reference."""
        return None

    @property
    def after(self) -> Metadata:
        """Return the position after the batch, if it is known only once the batch is emitted; otherwise None.

        A spout that gives such a position has `plans_ahead` False. The position is frozen with the batch, and the next
        `plan` gets it as `previous`.
        """
        return None

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return how Python workers read at least the fields `names`; None if only `dataframe` reads the tuples.

        Python operations that follow then run in the worker that reads.
        """
        return None

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether `dataframe` itself calls the function of `reader`, because Spark has none of its own."""
        return False

    @property
    def one_partition(self) -> bool:
        """Return whether Spark reads the tuples in one partition, so that an aggregate needs no shuffle."""
        return False

    @property
    def cheap(self) -> bool:
        """Return whether reading the tuples twice costs less than keeping them between two readers."""
        return False

    def counters(self, spark: "SparkSession") -> "Sequence[tuple[WorkerReader, Callable[[int], None]]]":
        """Return how workers count tuples whose number is not known, and what takes each number.

        A counter's rows are numbers of tuples. It should cost far less than reading the tuples. Their sum is given to
        the function beside the counter.
        """
        return ()

    def check_planned(self) -> None:
        """Raise SourceUnreadableError if the source has no longer what was planned. Called before Spark reads it."""
        return  # without this line mypy takes the method for abstract; the same holds below

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError if Spark may have read something else. Called after Spark has read it."""
        return


class SpoutExecutor(Protocol):
    """A spout at work in one run. One thread at a time calls it.

    A class that extends SpoutExecutor may leave out `success`, `fail` and `close` if they would do nothing.
    """

    @property
    def plans_ahead(self) -> bool:
        """Return whether a batch can be planned from the metadata of the batch before it, before that is emitted."""
        ...

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        """Return the metadata that names the batch of `attempt`; None if the source has nothing, and there is no batch.

        `previous` is None for the first batch. Otherwise it is the `after` of the previous batch's emission, or, if
        that is None, the previous batch's metadata. `time` is the present time (seconds since 1970). If `plan` is
        called again for the same batch, it may name other tuples: only the plan that is frozen counts. `budget` is how
        much the batch should hold at most, beside the spout's own limits; a spout ignores what it cannot measure.
        """
        ...

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        """Return the tuples that `metadata` names. A transactional spout returns the same tuples at every attempt."""
        ...

    def success(self, txid: int, metadata: Metadata) -> None:
        """Release what only a replay would need, because every batch up to and including `txid` is committed.

        The call may come again after a restart, and must then do no harm.
        """
        return

    def fail(self, attempt: TransactionAttempt) -> None:
        """Drop what belongs to the failed `attempt`. The batch will be emitted again."""
        return

    def close(self) -> None:
        """Release connections and files."""
        return


class ReadSoFar(NamedTuple):
    """The progress of a stream through its source: `done` of `total`, counted in the plural `unit` ("bytes").

    >>> ReadSoFar(20, 25, "messages").lag
    5
    """

    done: int
    total: int
    unit: str
    lags: Mapping[str, int] | None = None
    """How much of each partition is not read yet, by the partition's name; None for a source without partitions."""

    @property
    def lag(self) -> int:
        """Return the amount that is there and not read yet."""
        return self.total - self.done


@runtime_checkable
class MeasuredExecutor(Protocol):
    """An executor whose source has a size that is known, so that a run can tell how far it was read, and its lag."""

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        """Return how much the batches up to `position` have read; None while that is not known.

        `position` is what the next `plan` gets as `previous`. Any thread may call this, beside any other call, so it
        must be quick, and change nothing.
        """
        ...


@runtime_checkable
class WakingExecutor(Protocol):
    """An executor that hears by itself when its source has rows, so that an idle run does not ask again and again."""

    def on_rows(self, wake: Callable[[], None]) -> None:
        """Call `wake` from now on whenever rows have come, from any thread, until `close`.

        The run calls this once, before the first plan. A call of `wake` too much costs one plan. Without one the rows
        wait until the run asks by itself, which it does only twice a minute.
        """
        ...


@runtime_checkable
class SwitchedExecutor(Protocol):
    """An executor that wants to know when the topology becomes active or inactive.

    The run calls `activate` before the first plan, or, if it starts inactive, only when it is activated; then `plan`
    is not called before. After `deactivate` no batch begins until `activate`, but one that failed may be planned anew.
    """

    def activate(self) -> None:
        """Begin to take rows."""
        ...

    def deactivate(self) -> None:
        """Take no more rows. What was taken is still told its end by `success` and `fail`."""
        ...


@runtime_checkable
class ReasonedExecutor(Protocol):
    """An executor that wants to know why an attempt failed. `fail_with_reason` is called for it in place of `fail`."""

    def fail_with_reason(self, attempt: TransactionAttempt, reason: str) -> None:
        """Do what `fail` does. `reason` is the error's type and message."""
        ...


class Spout(Protocol):
    """A frozen, picklable description of a source, as users write it. It opens nothing before the topology starts."""

    @property
    def kind(self) -> SpoutKind: ...

    @property
    def schema(self) -> StructType:
        """Return the fields of the spout's tuples. This may read something of the source, such as a Parquet footer."""
        ...

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        ...


@runtime_checkable
class SparkOnlySpout(Protocol):
    """A spout that may have no way to read its tuples without Spark: the embedded engine then refuses it at the start.

    A spout without this property can be read without Spark.
    """

    @property
    def needs_spark(self) -> bool: ...
