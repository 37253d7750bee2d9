"""The choice of the adapter through which a run calls a user's spout."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.short_texts import brief
from trident.base.stream_fields import split_schema
from trident_spouts.adapters.batch_executor import BatchExecutor
from trident_spouts.adapters.coordinated_executor import CoordinatedExecutor
from trident_spouts.adapters.partitioned_executors import OpaqueExecutor, PartitionedExecutor
from trident_spouts.adapters.transaction_executor import TransactionSpoutExecutor
from trident_spouts.context import NO_CONTEXT, SpoutContext
from trident_spouts.executor import Metadata, Spout, SpoutExecutor, SpoutKind
from trident_spouts.messages.executor import MessageExecutor
from trident_spouts.messages.named_streams import Streams, named_streams
from trident_spouts.positions import position_by_part
from trident_spouts.protocols import BatchSpout
from trident_spouts.rows import read_schema

_Opener = Callable[[Any, StructType, SpoutContext], SpoutExecutor]


@dataclass(frozen=True, slots=True, eq=False)
class UserSpout:
    """A user's spout, wrapped as a Spout. It is picklable if the user's spout is."""

    spout: Any
    kind: SpoutKind
    schema: StructType
    opener: _Opener
    emitted_streams: Streams = ()
    """The named streams whose tuples the spout emits together; empty for a spout of one stream."""

    def open(self, context: SpoutContext = NO_CONTEXT) -> SpoutExecutor:
        """Return the executor of one run, which calls the methods of the user's object."""
        return self.opener(self.spout, self.schema, context)

    @property
    def forkable(self) -> bool:
        """True if the spout only reads: its attribute `forkable`, otherwise derived from its contract.

        Spouts over partitions only read. So does a BatchSpout that does not define `ack`.
        """
        declared = getattr(self.spout, "forkable", None)
        if declared is not None:
            return bool(declared)
        if self.opener is _batch_executor:
            return getattr(type(self.spout), "ack", BatchSpout.ack) is BatchSpout.ack
        return self.opener in (_partitioned_executor, _opaque_executor)

    def position_by_part(self, position: Metadata) -> dict[str, Metadata]:
        """Return how far the batches up to a position have read each part, by the user's method if there is one."""
        return position_by_part(self.spout, position)

    def previewable_if(self) -> str | None:
        """Return how to make the spout previewable; None if a preview takes no message away from the run."""
        tracking = getattr(self.spout, "tracking", "tracked") if self.opener is MessageExecutor else "tracked"
        if tracking == "tracked":
            return None
        return (
            f"The queue keeps a message for this run only until it is acknowledged: set tracking = 'tracked' (it is "
            f"{tracking!r})"
        )

    def __repr__(self) -> str:
        shown = repr(self.spout)
        return f"{type(self.spout).__name__}()" if shown == object.__repr__(self.spout) else shown


def _batch_executor(spout: Any, schema: StructType, context: SpoutContext) -> SpoutExecutor:
    hands_out_once = _kind(spout) is not SpoutKind.TRANSACTIONAL
    return BatchExecutor(spout, schema, spout if hands_out_once else None, context=context)


def _partitioned_executor(spout: Any, schema: StructType, context: SpoutContext) -> SpoutExecutor:
    return PartitionedExecutor(spout, schema, context=context)


def _opaque_executor(spout: Any, schema: StructType, context: SpoutContext) -> SpoutExecutor:
    return OpaqueExecutor(spout, schema, context=context)


_CONTRACTS: list[tuple[tuple[str, ...], SpoutKind | None, _Opener]] = [
    (("getPartitions", "emitPartitionBatchNew", "emitPartitionBatch"), SpoutKind.TRANSACTIONAL, _partitioned_executor),
    (("getPartitions", "emitPartitionBatch"), SpoutKind.OPAQUE, _opaque_executor),
    (("getCoordinator", "getEmitter"), None, CoordinatedExecutor),
    (("emitBatch",), None, _batch_executor),
    (("nextTuple", "initState", "rollback", "finishBatch"), SpoutKind.OPAQUE, TransactionSpoutExecutor),
    (("nextTuple",), None, MessageExecutor),
]
"""The contracts.

Each row has the methods of a contract, the kind that it implies (None: the spout declares its kind), and the function
that creates its executor. A user's object matches the first contract of which it has all methods.
"""


def as_spout(candidate: Any) -> Spout:
    """Return the Spout for an object that a user gave: a Spout unchanged, an object with a contract in a wrapper.

    Raises TopologyError if `candidate` is not a spout, or is a class and not an instance.
    """
    if isinstance(candidate, type):
        raise TopologyError(f"{brief(candidate)} is not a spout; give an instance: {candidate.__name__}(...)")
    for methods, implied, opener in _CONTRACTS:
        if all(callable(getattr(candidate, method, None)) for method in methods):
            kind, streams = implied or _kind(candidate), _streams(candidate, opener)
            return UserSpout(candidate, kind, split_schema(streams) if streams else _schema(candidate), opener, streams)
    if all(hasattr(candidate, name) for name in ("kind", "schema", "open")):
        spout: Spout = candidate
        return spout
    raise TopologyError(
        f"{brief(candidate)} is not a spout; give one such as FileSpout(path) or FixedBatchSpout(fields, batches), or "
        f"an object of your own that extends BatchSpout, TridentSpout, PartitionedSpout, OpaquePartitionedSpout, "
        f"RichSpout or TransactionSpout"
    )


def _kind(spout: Any) -> SpoutKind:
    declared = getattr(spout, "kind", SpoutKind.NON_TRANSACTIONAL)
    try:
        return SpoutKind(declared)
    except ValueError:
        raise TopologyError(
            f"{type(spout).__name__}.kind is {declared!r}: expected one of {', '.join(map(str, SpoutKind))}"
        ) from None


def _streams(spout: Any, opener: _Opener) -> Streams:
    fields = getattr(spout, "outputFields", None)
    if not isinstance(fields, Mapping):
        return ()
    if opener is not MessageExecutor:
        raise TopologyError(
            f"{type(spout).__name__}.outputFields is a dict: only a RichSpout emits on several streams; for other "
            "spouts write newStream(...).split(...)"
        )
    return named_streams(fields)


def _schema(spout: Any) -> StructType:
    fields = getattr(spout, "outputFields", None)
    if not isinstance(fields, str | StructType):
        raise TypeDeclarationError(
            f"{type(spout).__name__} does not declare the fields that it emits; write in its class: "
            f'outputFields = "word string, n long"'
        )
    return read_schema(fields)
