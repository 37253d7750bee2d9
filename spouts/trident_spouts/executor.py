"""The protocol of spouts: the methods by which a run calls spouts of every kind.

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
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.source_times import SourceSpan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Metadata = None | bool | int | float | str | list[Any] | dict[str, Any]
"""A spout's description of a batch's content, as JSON. The log keeps it, and it names the batch."""


class SpoutKind(enum.Enum):
    """The promise of a spout for the replay of a batch (Trident's three kinds)."""

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
    """The tuples that a spout emits for one attempt: in memory, or as a reference to data that workers will read.

    A class that extends Emission defines `dataframe`, `arrow` and `rows`; the other methods have defaults.
    """

    @property
    def rows(self) -> int | None:
        """Return the number of tuples; None if it is not known before they are read."""
        ...

    @property
    def most_rows(self) -> int | None:
        """Return the largest possible number of tuples; None if no bound is known before they are read."""
        return self.rows

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return a new DataFrame of exactly these tuples, in their order.

        The folder `scratch` is deleted after the attempt.
        """
        ...

    def arrow(self) -> pa.Table:
        """Return the same tuples in the driver's memory, for small batches and tests."""
        ...

    @property
    def bytes(self) -> int | None:
        """The number of bytes of the tuples in the source; None if it is not known before they are read.

        A run that was started with `targetBatchSecs` computes from it how large the next batch may be.
        """
        return None

    @property
    def digest(self) -> str | None:
        """Return a checksum of the tuples that is the same in every process; None if the emission is a reference."""
        return None

    @property
    def after(self) -> Metadata:
        """Return the position after the batch, if it is known only once the batch is emitted; otherwise None.

        A spout that returns such a position has `plans_ahead` False. The position is frozen with the batch, and the
        next `plan` gets it as `previous`. A spout that plans ahead may return, once the tuples are read, the batch's
        metadata with evidence about the rows that were read: the next start compares this evidence with the source.
        Both forms of the metadata name the same position for `plan`.
        """
        return None

    @property
    def source_times(self) -> Sequence[SourceSpan]:
        """Return the times that the source gave the tuples, once these were read; nothing if it gave none.

        A run measures by them how long messages take from the source to COMMITTED.
        """
        return ()

    @property
    def verified(self) -> bool:
        """Return whether reading fails by itself if the source no longer has the planned content.

        Otherwise, if the emission is a reference of a transactional spout, the driver compares the rows of a replay
        with those of the earlier attempt. It can do so only on the embedded engine, because with Spark the workers read
        the rows.
        """
        return False

    def reader(self, spark: "SparkSession", names: Sequence[str]) -> WorkerReader | None:
        """Return a reader for Python workers of at least the fields `names`; None if only `dataframe` can do it.

        Then the Python operations that follow run in the worker that reads.
        """
        return None

    def unordered(self, spark: "SparkSession", scratch: Path) -> "DataFrame | None":
        """Return a new DataFrame of these tuples in any order, if that costs less than `dataframe`; otherwise None.

        A run uses it if the order of the tuples does not change any result computed from them: counts, sums, minima.
        """
        return None

    def python_only(self, spark: "SparkSession") -> bool:
        """Return whether `dataframe` itself needs the function of `reader`: Spark has no reader for the source."""
        return False

    @property
    def one_partition(self) -> bool:
        """Return whether Spark reads the tuples in one partition, and aggregates them faster without a shuffle."""
        return False

    @property
    def cheap(self) -> bool:
        """Return whether reading the tuples twice costs less than keeping them between two readers."""
        return False

    def counters(self, spark: "SparkSession") -> "Sequence[tuple[WorkerReader, Callable[[int], None]]]":
        """Return the readers with which workers count tuples, each with the function that receives the number.

        The rows of a counter are numbers of tuples, and their sum is passed to the function. A counter should cost far
        less than reading the tuples.
        """
        return ()

    def check_planned(self) -> None:
        """Raise SourceUnreadableError if the source no longer has the planned content. Called before Spark reads it."""
        return  # without this line mypy treats the method as abstract; also below

    def check_scanned(self) -> None:
        """Raise SourceUnreadableError if Spark may have read other content. Called after Spark has read it."""
        return


class SpoutExecutor(Protocol):
    """The part of a spout that plans and reads batches in one run. One thread at a time calls it.

    A class that extends SpoutExecutor may leave out `success`, `fail` and `close` if they would do nothing.
    """

    @property
    def plans_ahead(self) -> bool:
        """Return whether a batch can be planned from the previous batch's metadata before that batch is emitted."""
        ...

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        """Return the metadata that identifies the batch of `attempt`; None (no batch) if the source has no rows now.

        If None does not mean that the source is empty, the executor is a `WaitingExecutor`. If the source is out of
        reach, raise SourceUnreadableError.

        `previous` is None for the first batch. Otherwise it is the `after` of the previous batch's emission, or, if
        that is None, the previous batch's metadata. `time` is the present time (seconds since 1970). If `plan` is
        called again for the same batch, it may name other tuples: only the plan that is frozen counts. `budget` is the
        most that the batch should hold, in addition to the spout's own limits; a spout ignores a limit that it cannot
        measure.
        """
        ...

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        """Return the tuples that `metadata` names. A transactional spout returns the same tuples at every attempt."""
        ...

    def success(self, txid: int, metadata: Metadata) -> None:
        """Release resources for replays, because every batch up to and including `txid` is committed.

        The call may be repeated after a restart, and must then have no effect. At its start a run calls this for every
        stream with the last committed `txid`. If that batch has no tuples of the stream, `metadata` is that of the
        stream's last batch, if `plans_ahead`. So a queue acknowledges messages after a lost acknowledgement.
        """
        return

    def fail(self, attempt: TransactionAttempt) -> None:
        """Drop the data of the failed `attempt`. The batch will be emitted again."""
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
    """The unread part of each partition, by the partition's name; None for a source without partitions."""

    @property
    def lag(self) -> int:
        """Return the amount that is available and not read yet."""
        return self.total - self.done


@runtime_checkable
class MeasuredExecutor(Protocol):
    """An executor with a source of known size, so that a run can report how far it was read, and its lag."""

    def read_so_far(self, position: Metadata) -> ReadSoFar | None:
        """Return how much of the source the batches up to `position` have read; None if that is not known yet.

        The next `plan` gets `position` as `previous`. Any thread may call this at any time, so it must be quick and
        must not change anything.
        """
        ...


@runtime_checkable
class WaitingExecutor(Protocol):
    """An executor that distinguishes an empty source from a source with rows that cannot be planned yet.

    A `plan` that returns None may mean four things. The source is empty: then `waits_for` returns None, and a run with
    `availableNow` or `processAllAvailable` may end. A limit is reached, or the source has not answered yet: then
    `waits_for` returns that reason, and the run calls `plan` again. The source is out of reach: then `plan` raises an
    error in place of returning None.
    """

    def waits_for(self) -> str | None:
        """Return the reason why the last `plan` returned None although there may be rows; None if the source is empty.

        The run calls this right after such a plan. The text is shown in the status of the topology: "maxPending=6: ...
        are not committed yet". The wait must end without new rows in the source: by a commit, by an answer of the
        source, or at a time. A `WakingExecutor` also wakes its run when the wait ends, even if no row came.
        """
        ...


@runtime_checkable
class WakingExecutor(Protocol):
    """An executor that is notified when its source has rows, so that an idle run does not poll it."""

    def on_rows(self, wake: Callable[[], None]) -> None:
        """From now on until `close`, call `wake` from any thread whenever rows have come.

        The run calls this once, before the first plan. A needless call of `wake` costs one plan. If a call is missing,
        the rows wait for the next poll of the run, which comes only twice a minute.
        """
        ...


@runtime_checkable
class FailureAwareExecutor(Protocol):
    """An executor that learns that its run has failed, so that its source takes no rows that no run would read."""

    def run_failed(self) -> None:
        """Note that the run has failed and reads no more. Called before `close`, and not if the run was stopped."""
        ...


@runtime_checkable
class SwitchedExecutor(Protocol):
    """An executor that learns when the topology becomes active or inactive.

    The run calls `activate` before the first plan; a run that starts inactive calls it when it is activated. After
    `deactivate` no batch begins until `activate`, but a batch that failed may be planned again.
    """

    def activate(self) -> None:
        """Begin to take rows."""
        ...

    def deactivate(self) -> None:
        """Stop taking rows. `success` and `fail` are still called for batches with rows that were already taken."""
        ...


@runtime_checkable
class ReasonedExecutor(Protocol):
    """An executor that receives the reason why an attempt failed: `fail_with_reason` is called instead of `fail`."""

    def fail_with_reason(self, attempt: TransactionAttempt, reason: str) -> None:
        """Do the same as `fail`. `reason` is the error's type and message."""
        ...


class Spout(Protocol):
    """A frozen, picklable description of a source, as users write it. It opens nothing before the topology starts."""

    @property
    def kind(self) -> SpoutKind: ...

    @property
    def schema(self) -> StructType:
        """Return the fields of the spout's tuples. This may read a part of the source, such as a Parquet footer."""
        ...

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        ...


@runtime_checkable
class SparkOnlySpout(Protocol):
    """A spout that may need Spark to read its tuples. If it does, a start on the embedded engine is refused.

    A spout without this property can be read without Spark.
    """

    @property
    def needs_spark(self) -> bool: ...
