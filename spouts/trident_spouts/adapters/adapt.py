"""Any spout that a user gives, as the engine's Spout."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyspark.sql.types import StructType

from trident.base.errors import TopologyError, TypeDeclarationError
from trident.base.text import brief
from trident_spouts.adapters.batch import BatchExecutor
from trident_spouts.adapters.coordinated import CoordinatedExecutor
from trident_spouts.adapters.partitioned import OpaqueExecutor, PartitionedExecutor
from trident_spouts.executor import Spout, SpoutExecutor, SpoutKind
from trident_spouts.rows import read_schema

_Opener = Callable[[Any, StructType], SpoutExecutor]


@dataclass(frozen=True, slots=True, eq=False)
class UserSpout:
    """A user's spout behind the engine's protocol; picklable if the user's is."""

    spout: Any
    kind: SpoutKind
    schema: StructType
    opener: _Opener

    def open(self) -> SpoutExecutor:
        """Begin to work for one run, with the user's own object."""
        return self.opener(self.spout, self.schema)

    def __repr__(self) -> str:
        shown = repr(self.spout)
        return f"{type(self.spout).__name__}()" if shown == object.__repr__(self.spout) else shown


def _batches(spout: Any, schema: StructType) -> SpoutExecutor:
    once = _kind(spout) is not SpoutKind.TRANSACTIONAL
    return BatchExecutor(spout, schema, spout if once else None)


_CONTRACTS: list[tuple[tuple[str, ...], SpoutKind | None, _Opener]] = [
    (("getPartitions", "emitPartitionBatchNew", "emitPartitionBatch"), SpoutKind.TRANSACTIONAL, PartitionedExecutor),
    (("getPartitions", "emitPartitionBatch"), SpoutKind.OPAQUE, OpaqueExecutor),
    (("getCoordinator", "getEmitter"), None, CoordinatedExecutor),
    (("emitBatch",), None, _batches),
]
"""The methods that tell a contract, the kind that it implies (None: the spout says), and who runs it."""


def as_spout(given: Any) -> Spout:
    """Return a spout of this library as it is, and an object of one of the four contracts in a wrapper.

    Raises TopologyError for what is no spout, or a class where an instance is meant.
    """
    if isinstance(given, type):
        raise TopologyError(f"{brief(given)} is no spout; give an instance: {given.__name__}(...)")
    for methods, implied, opener in _CONTRACTS:
        if all(callable(getattr(given, method, None)) for method in methods):
            return UserSpout(given, implied or _kind(given), _schema(given), opener)
    if all(hasattr(given, name) for name in ("kind", "schema", "open")):
        spout: Spout = given
        return spout
    raise TopologyError(
        f"{brief(given)} is no spout; give one such as FileSpout(path) or FixedBatchSpout(fields, batches), or an "
        f"object of your own that extends BatchSpout, TridentSpout, PartitionedSpout or OpaquePartitionedSpout"
    )


def _kind(given: Any) -> SpoutKind:
    told = getattr(given, "kind", SpoutKind.NON_TRANSACTIONAL)
    try:
        return SpoutKind(told)
    except ValueError:
        raise TopologyError(
            f"{type(given).__name__}.kind is {told!r}; it must be one of {', '.join(map(str, SpoutKind))}"
        ) from None


def _schema(given: Any) -> StructType:
    fields = getattr(given, "outputFields", None)
    if not isinstance(fields, str | StructType):
        raise TypeDeclarationError(
            f"{type(given).__name__} does not say what it emits; write in its class: "
            f'outputFields = "word string, n long"'
        )
    return read_schema(fields)
