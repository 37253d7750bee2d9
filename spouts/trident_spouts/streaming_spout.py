"""StreamingSpout: a spout of the batches of a streaming DataFrame with any source."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.argument_checks import check_choice
from trident.base.attempt import TransactionAttempt
from trident.base.descriptions import keep
from trident.base.errors import (
    DataLossError,
    MissingSessionError,
    SourceUnreadableError,
    SparkSetupError,
    TopologyError,
)
from trident.base.short_texts import typed_brief
from trident.base.spark_types import ddl, schema_of
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.configurable import configurable
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind
from trident_spouts.streaming_query import HeldQuery
from trident_spouts.user_calls import foreign_metadata_error

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@configurable
@dataclass(frozen=True, init=False, repr=False, eq=False)
class StreamingSpout:
    """A spout of a streaming DataFrame with any source. Each batch of Structured Streaming becomes a batch here.

    Spark plans the batches, and keeps the position in the source in the query's checkpoint. It hands over a batch by
    ``foreachBatch``, and commits it only when the topology's log has frozen it. After a crash Spark hands the same
    batch over again; if it was frozen already, it is skipped.

    Parameters
    ----------
    frame : DataFrame
        A streaming DataFrame (``spark.readStream...``) of the session with which the topology starts, or of another
        session of the same Spark. A session of Spark Connect is not possible, because its ``foreachBatch`` runs in
        another process.
    checkpointLocation : str or path
        The folder of the query's checkpoint. It belongs to this stream of this topology. If the checkpoint or the
        topology's log is lost or replaced, the stream is refused.
    kind : "transactional", "opaque" or "nonTransactional"
        The promise of the source when Spark hands a batch over again: the same rows ("transactional": a query over
        Kafka, files or Delta without functions of random numbers or the present time), perhaps other rows of the same
        range ("opaque"), or nothing ("nonTransactional": sockets).
    trigger : mapping, optional
        The arguments of ``DataStreamWriter.trigger``, such as ``{"availableNow": True}``.

    Raises
    ------
    SparkSetupError
        The DataFrame belongs to a session of Spark Connect.
    DataLossError
        The checkpoint is not the checkpoint that the stream has used before, or was used by another stream.
    SourceUnreadableError
        The streaming query has failed; the message has Spark's reason.

    Examples
    --------
    >>> StreamingSpout("orders", "checkpoint")
    Traceback (most recent call last):
    trident_client.errors.TopologyError: StreamingSpout: frame='orders' (str): expected a streaming DataFrame, made by \
spark.readStream
    """

    frame: "DataFrame"
    checkpointLocation: str
    kind: SpoutKind
    trigger: Mapping[str, Any]
    needs_spark = True

    def __init__(
        self,
        frame: "DataFrame",
        checkpointLocation: str | os.PathLike[str],
        *,
        kind: Literal["transactional", "opaque", "nonTransactional"] = "opaque",
        trigger: Mapping[str, Any] | None = None,
    ) -> None:
        _check_frame(frame)
        check_choice("StreamingSpout: kind", kind, [each.value for each in SpoutKind])
        keep(
            self,
            frame=frame,
            checkpointLocation=os.fspath(checkpointLocation),
            kind=SpoutKind(kind),
            trigger=dict(trigger or {}),
        )

    @property
    def schema(self) -> StructType:
        """Return the fields of the DataFrame."""
        return schema_of(self.frame.schema.fields)

    @property
    def holds(self) -> str:
        """The checkpoint of the query, which one query at a time may write."""
        return f"the checkpoint {self.checkpointLocation!r}"

    def open(self) -> SpoutExecutor:
        """Return the executor of one run."""
        return _StreamingExecutor(self)

    @staticmethod
    def position_by_part(position: Metadata) -> dict[str, Metadata]:
        """Return the last batch of the streaming query that was read, as Spark's checkpoint numbers it."""
        return {"batch": _batch_of(position, None, "")}

    def __repr__(self) -> str:
        kind = "" if self.kind is SpoutKind.OPAQUE else f", kind={self.kind.value!r}"
        return f"StreamingSpout(DataFrame[{ddl(self.schema)}], {self.checkpointLocation!r}{kind})"


def _check_frame(frame: Any) -> None:
    if type(frame).__module__.startswith("pyspark.sql.connect"):
        raise SparkSetupError(
            "StreamingSpout: the DataFrame is from Spark Connect, whose foreachBatch runs outside the topology's "
            "process: use a classic session (SPARK_API_MODE=classic), or name the ranges yourself with SparkSpout"
        )
    if not getattr(frame, "isStreaming", False):
        raise TopologyError(
            f"StreamingSpout: frame={typed_brief(frame)}: expected a streaming DataFrame, made by spark.readStream"
        )


class _StreamingExecutor(SpoutExecutor):
    """The executor of a StreamingSpout. It plans the batch that the query holds, once the previous batch is frozen."""

    plans_ahead = False

    def __init__(self, spout: StreamingSpout) -> None:
        self._spout = spout
        self._query = HeldQuery(spout.frame, spout.checkpointLocation, spout.trigger)
        self._checked = -1
        """The last batch that was compared with its record in Spark's checkpoint."""

    def on_rows(self, wake: Callable[[], None]) -> None:
        self._query.wake = wake

    def plan(self, attempt: TransactionAttempt, previous: Metadata, time: float, budget: Budget = NO_LIMIT) -> Metadata:
        query = self._query
        query.start()
        last = _batch_of(previous, query.id, self._spout.checkpointLocation)
        self._check_read(previous, last)
        query.release(last)
        batch = query.held()
        if batch is None:
            query.start()  # the query may have failed meanwhile
            return None
        if batch != last + 1:
            has = f"ends with batch {last}" if last >= 0 else "has no batch of it"
            raise DataLossError(
                f"StreamingSpout: the query under {self._spout.checkpointLocation} continues with its batch {batch}, "
                f"but the topology's log {has}: another topology read the batches between them, or the log is an old "
                f"copy. Start over with a new checkpointLocation for both"
            )
        return {"query": query.id, "batch": batch, "offsets": query.offsets(batch)}

    def _check_read(self, previous: Metadata, last: int) -> None:
        """Raise DataLossError if Spark's checkpoint has another batch, or no batch, under the number of the last batch.

        Checked before the batch is released, because Spark would then treat its rows as processed (guard "streaming,
        older checkpoint").
        """
        expected = previous.get("offsets") if isinstance(previous, dict) else None
        if expected is None or self._checked == last:
            return
        found = self._query.offsets(last)
        if found != expected:
            what = "has no batch" if found is None else "holds another batch under the number"
            raise DataLossError(
                f"StreamingSpout: the checkpoint under {self._spout.checkpointLocation} {what} {last}, the last batch "
                f"that this stream has counted (checksum of its offsets: expected {expected}, got {found or 'none'}): "
                f"it is an older copy, or its last files were lost in a power failure, and Spark plans the batch again "
                f"over the current data. Restore the newest checkpoint; or start over with a new checkpointLocation "
                f"and a stream with another name, with newStream(..., anew=True): everything that the source still has "
                f"then counts twice"
            )
        self._checked = last

    def waits_for(self) -> str | None:
        return self._query.waits_for

    def emit(self, attempt: TransactionAttempt, metadata: Metadata) -> Emission:
        batch = _batch_of(metadata, None, self._spout.checkpointLocation)
        if self._query.held() != batch:
            raise SourceUnreadableError(f"StreamingSpout: the streaming query no longer has batch {batch}")
        return _HeldEmission(self._query.view)

    def success(self, txid: int, metadata: Metadata) -> None:
        self._query.release(_batch_of(metadata, None, self._spout.checkpointLocation))

    def close(self) -> None:
        self._query.close()


def _batch_of(metadata: Metadata, query: str | None, checkpoint: str) -> int:
    """Return the batch that `metadata` names; -1 for None. Raises DataLossError if it is a batch of another query."""
    if metadata is None:
        return -1
    if not isinstance(metadata, dict) or metadata.keys() - {"offsets"} != {"query", "batch"}:
        raise foreign_metadata_error("StreamingSpout", metadata)
    if query not in (None, metadata["query"]):
        raise DataLossError(
            f"StreamingSpout: the checkpoint under {checkpoint} belongs to another query (id {query}), not to the one "
            f"that the stream has read (id {metadata['query']}): it was lost or replaced, and the position in the "
            f"source with it. Restore it; or start over with a stream with another name, with newStream(..., anew=True)"
        )
    return int(metadata["batch"])


@dataclass(frozen=True, slots=True)
class _HeldEmission(Emission):
    """The rows of the batch that a streaming query holds."""

    view: str
    rows = None

    def arrow(self) -> pa.Table:
        raise MissingSessionError("StreamingSpout: only Spark can read its batches; start the topology on Spark")

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        return spark.table(self.view)
