"""Run a topology's first stage by hand on either engine, without log, stores or commits."""

import itertools
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import SparkSession

from trident import TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.spark_types import arrow_schema, parse_schema
from trident.compiler.arrow.engine import ArrowEngine
from trident.compiler.columns.columns import Columns
from trident.compiler.engine import REQUEST, Answer, Slot
from trident.compiler.program import Group
from trident.compiler.spark.engine import SparkEngine, SparkSlot
from trident.compiler.spark.sessions import released, run_session
from trident.compiler.stages import cut, cut_nodes
from trident.frozen.results import StageResult
from trident.plan.nodes import Node
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident_spouts.emission import ArrowEmission

STATE = MemoryMapState.opaque()
_NUMBERS = itertools.count(1)


class Slots(Protocol):
    """The engine that a test runs a group on."""

    name: str

    def slot(self, group: Group) -> Slot: ...


class OnArrow:
    """The driver-side engine."""

    name = "arrow"

    def slot(self, group: Group) -> Slot:
        return ArrowEngine().slot(group)


class OnSpark:
    """The Spark engine with one session for all slots: each session would start Python workers of its own."""

    name = "spark"

    def __init__(self, spark: SparkSession) -> None:
        self.engine = SparkEngine(spark)
        self.session = run_session(spark)

    def slot(self, group: Group) -> Slot:
        return SparkSlot(group, self.session, self.engine._sizes, self.engine)

    def close(self) -> None:
        """Give its sessions back."""
        self.engine.close()
        released(self.session)


def stream(topology: TridentTopology, fields: str, *batches: Iterable[Any], name: str = "s") -> Any:
    """Add a stream of these batches to a topology."""
    return topology.newStream(name, FixedBatchSpout(fields, [list(batch) for batch in batches]))


def run(slots: Slots, topology: TridentTopology, batch: int = 0, attempt: int = 0) -> StageResult:
    """Run stage 1 of the topology's one group over a batch."""
    (group,) = cut(topology).groups
    return run_group(slots, group, batch, attempt)


def run_group(slots: Slots, group: Group, batch: int = 0, attempt: int = 0) -> StageResult:
    """Run stage 1 of a group over a batch."""
    slot = slots.slot(group)
    emissions: Mapping[Node, Any] = {
        spout: spout.spout.open().emit(TransactionAttempt(batch + 1, attempt), batch) for spout in group.spouts
    }
    with tempfile.TemporaryDirectory() as scratch:
        return slot.run(group.stages[0], emissions, TransactionAttempt(batch + 1, attempt), Path(scratch) / "s")


def results(slots: Slots, topology: TridentTopology, batch: int = 0) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows of each output of stage 1, sorted."""
    return {name: rows(table) for name, table in run(slots, topology, batch).results.items()}


def leaving(slots: Slots, stream: Any, batch: int = 0) -> list[tuple[Any, ...]]:
    """Return the tuples of a batch that leave a stream, in the order in which a state's updater gets them."""
    state = stream.partitionPersist(
        STATE, lambda state, tuples, collector: None, valueType="long", name=f"last{next(_NUMBERS)}"
    )
    (group,) = cut_nodes([state._node], {}).groups
    (output,) = group.stages[0].outputs
    table = run_group(slots, group, batch).results[output.name]
    assert isinstance(table, pa.Table)
    return [tuple(row[name] for name in stream.fields) for row in table.to_pylist()]


def rows(table: Any) -> list[tuple[Any, ...]]:
    """Return a table's rows as tuples, sorted by their text, because NaN and null cannot be compared."""
    return sorted((tuple(row.values()) for row in table.to_pylist()), key=repr)


def table(fields: str, *tuples: tuple[Any, ...]) -> pa.Table:
    """Return a table of these tuples."""
    schema = arrow_schema(parse_schema(fields))
    return pa.Table.from_arrays(
        [pa.array([row[at] for row in tuples], field.type) for at, field in enumerate(schema)], schema=schema
    )


def answered(answer: Answer, requests: pa.Table, read: Any) -> pa.Table:
    """Return the answers of a compiled DRPC function as a table. The first field of `requests` has their numbers."""
    entering = pa.schema([REQUEST, *list(requests.schema)[1:]])
    answers = answer(Columns.of(requests, entering), read)
    return pa.table({name: answers[name].array() for name in answers.names})


def emission(fields: str, *tuples: tuple[Any, ...]) -> ArrowEmission:
    """Return the emission of a spout."""
    return ArrowEmission(table(fields, *tuples))
