"""Real stores that a test commits batches to, as a run does: state after state, the gate asked before each batch."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any

import pyarrow as pa

from trident.base.attempt import Lease
from trident.base.callsite import CallSite
from trident.base.spark_types import arrow_schema, arrow_type, parse_schema, parse_type
from trident.files.store import FileStore
from trident.operations.aggregates.sum import Sum
from trident.operations.aggregators import Aggregation, CombinerAggregator
from trident.plan.nodes import PersistentAggregate, SpoutSource, StateSpec
from trident.reads.commit_gate import CommitGate
from trident_state.memory.store import MemoryStore
from trident_state.state_shape import Combine, StateIdentity, StateKind, StateShape
from trident_state.store import StateFactory, Store
from trident_state.store_messages import Update

SITE = CallSite("test", "test.py", 1)
LEASE = Lease(1, "mine")


class NoHome:
    """A run without a checkpoint."""

    files: FileStore | None = None

    def manifest(self) -> bytes | None:
        return None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        raise AssertionError("nothing is published without a place for files")


class Factory:
    """A state's factory as a plan holds it; the kit opens the store itself."""

    survives = "process"

    def __init__(self, kind: StateKind) -> None:
        self.kind = kind


def state_node(
    name: str,
    keys: str = "word string",
    value: str = "bigint",
    kind: StateKind = StateKind.OPAQUE,
    aggregator: CombinerAggregator | None = None,
    output: str = "count",
) -> PersistentAggregate:
    """A persistentAggregate of a summing state."""
    schema = parse_schema(keys) if keys else parse_schema("x long")[:0]
    source = SpoutSource("sentences", None, step="sentences", site=SITE, schema=schema)  # type: ignore[arg-type]
    summed = aggregator if aggregator is not None else Sum()
    leaving = parse_schema(", ".join(part for part in (keys, f"{output} {value}") if part))
    return PersistentAggregate(
        source,
        tuple(schema.names),
        (),
        Aggregation(summed, SITE, output, parse_type(value)),
        StateSpec(name, Factory(kind)),  # type: ignore[arg-type]
        step=f"sentences/1:persistentAggregate({name})",
        site=SITE,
        schema=leaving,
    )


def shape_of(node: PersistentAggregate) -> StateShape:
    schema = arrow_schema(node.schema)
    aggregator = node.aggregation.aggregator
    combine = Combine(type(aggregator).__name__, aggregator.combine, None)
    return StateShape(pa.schema(list(schema)[:-1]), arrow_type(node.aggregation.type), combine)


class States:
    """The stores of some batch groups, committed to batch by batch; what reads need of a run (`ReadSource`)."""

    def __init__(self, groups: Mapping[str, list[PersistentAggregate]], factory: StateFactory | None = None) -> None:
        """`factory` makes the stores; without one they are memory's."""
        self.factory = factory
        self.nodes = {node.state.name: node for nodes in groups.values() for node in nodes}
        self.shapes = {name: shape_of(node) for name, node in self.nodes.items()}
        self.groups = {name: [node.state.name for node in nodes] for name, nodes in groups.items()}
        self.stores: dict[str, Store] = {name: self.made(name) for name in self.nodes}
        self.txids = dict.fromkeys(groups, 0)
        self.gates = {group: CommitGate(lambda group=group: self.txids[group]) for group in groups}  # type: ignore[misc]
        self.stopped: Exception | None = None
        self.holds = 0

    def made(self, name: str) -> Store:
        node = self.nodes[name]
        identity = StateIdentity("topology", name, "log")
        store: Store = (
            MemoryStore(identity, self.shapes[name], node.state.factory.kind, NoHome())
            if self.factory is None
            else self.factory.open(identity, self.shapes[name], NoHome())
        )
        store.create(LEASE, 0)
        store.acquire(LEASE)
        return store

    def commit(self, group: str, batch: Mapping[str, Mapping[Any, Any]]) -> int:
        """Commit one batch: for each state its keys and deltas."""
        txid = self.txids[group] + 1
        assert self.gates[group].wait(txid, 30)
        for name in self.groups[group]:
            self.apply(name, txid, batch.get(name, {}))
        self.txids[group] = txid
        return txid

    def apply(self, name: str, txid: int, deltas: Mapping[Any, Any]) -> None:
        """One state's part of a batch."""
        shape = self.shapes[name]
        self.stores[name].apply(
            LEASE, Update(txid, key_table(shape, list(deltas)), pa.array(deltas.values(), shape.value))
        )

    # --- ReadSource ------------------------------------------------------------------------------------------

    def group_of(self, state: str) -> str:
        return next(group for group, names in self.groups.items() if state in names)

    def committed(self, group: str) -> int:
        return self.txids[group]

    def between(self, group: str) -> AbstractContextManager[int]:
        self.holds += 1
        return self.gates[group].between()

    def store(self, state: str) -> Store:
        return self.stores[state]

    def kind(self, state: str) -> StateKind:
        return self.nodes[state].state.factory.kind

    def isPrompt(self, state: str) -> bool:
        return getattr(self.stores[state], "isPrompt", False)

    def check(self) -> None:
        if self.stopped is not None:
            raise self.stopped


def key_table(shape: StateShape, keys: list[Any]) -> pa.Table:
    """Keys as stores take them: plain values of one field, tuples of several, () of none."""
    fields = list(shape.keys)
    if not fields:
        return pa.Table.from_batches([pa.RecordBatch.from_struct_array(pa.array([{} for _ in keys], pa.struct([])))])
    rows = keys if len(fields) > 1 else [(key,) for key in keys]
    return pa.table([pa.array([row[at] for row in rows], f.type) for at, f in enumerate(fields)], schema=shape.keys)
