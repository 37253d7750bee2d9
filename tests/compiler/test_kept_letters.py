"""Dead letters in a state: the update of whole columns means what `KeepLetters.updateState` means."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from tests.support.soak import some_of
from trident import TridentTopology
from trident.base.spark_types import arrow_schema, select
from trident.compiler.state_updates import compile_state_update
from trident.compiler.states.shapes import shape_of
from trident.compiler.states.update_types import WindowBatch
from trident.compiler.states.updates import Updated, updater_update
from trident.operations.dead_letters import LETTER, KeepLetters
from trident.plan.dead_letters import keeper_of
from trident.plan.nodes import PartitionPersist
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

Entries = dict[str, Any]


def step_of(topology: TridentTopology) -> PartitionPersist:
    (step,) = (node for node in topology.nodes if isinstance(node, PartitionPersist))
    return step


def keeping(most: int) -> PartitionPersist:
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [["1"]]))
    lines.each("line", int, "n long", onError="deadLetter")
    topology.deadLetterState(MemoryMapState.opaque(), most=most)
    return step_of(topology)


@dataclass
class Kept:
    """A state of letters, by id; `step` says what its entries look like."""

    step: PartitionPersist
    entries: Entries = field(default_factory=dict)

    def scan(self) -> Iterator[pa.Table]:
        shape, items = shape_of(self.step), list(self.entries.items())
        for page in (items[::2], items[1::2]):
            columns = [pa.array([key for key, _ in page], pa.string()), pa.array([v for _, v in page], shape.value)]
            yield pa.Table.from_arrays(columns, names=[*shape.keys.names, "value"])

    def read(self, keys: pa.Table) -> pa.Array:
        return pa.array([self.entries.get(key) for key in keys.column(0).to_pylist()], shape_of(self.step).value)

    def after(self, updated: Updated) -> Entries:
        rows = list(zip(*(column.to_pylist() for column in updated.puts.columns), strict=True))
        assert len({key for key, _ in rows}) == len(rows), "each key once"
        return {key: value for key, value in {**self.entries, **dict(rows)}.items() if value is not None}


def letters(step: PartitionPersist, rows: list[tuple[str, int | None]]) -> pa.Table:
    """Return letters with these ids; each with its number in all other fields, or null if it is on its way back."""
    schema = arrow_schema(select(step.source.schema, step.inputs))
    columns = []
    for column in schema:
        numbers = [number for _, number in rows]
        texts = [id for id, _ in rows] if column.name == "id" else [n if n is None else str(n) for n in numbers]
        columns.append(pa.array(texts if pa.types.is_string(column.type) else numbers, column.type))
    return pa.Table.from_arrays(columns, schema=schema)


@pytest.mark.parametrize("seed", some_of(range(20), range(5)))
@pytest.mark.parametrize("most", [1, 4, 1000])
def test_the_columns_hold_what_the_updater_stores(most: int, seed: int) -> None:
    draw, step = random.Random(seed), keeping(most)
    assert keeper_of(step) is not None
    by_columns, by_letter = compile_state_update(step), updater_update(step)
    kept = Kept(step)
    for txid in range(1, 9):
        ids = [f"{draw.randrange(30):03d}" for _ in range(draw.randrange(8))]
        table = letters(step, [(id, draw.choice([None, txid, 100 + at])) for at, id in enumerate(ids)])
        updated, expected = by_columns([table], kept, WindowBatch(txid, float, None)), by_letter(table, kept, txid)
        assert kept.after(updated) == kept.after(expected)
        back = {id.as_py() for id, way in zip(table["id"], table["step"], strict=True) if not way.is_valid}
        came = {*kept.entries, *ids} - back
        assert updated.dropped == max(0, len(came) - most)
        assert updated.puts.schema.equals(expected.puts.schema)
        assert updated.emitted is not None and updated.emitted.equals(expected.emitted)
        kept.entries = kept.after(updated)
        assert len(kept.entries) <= most


def test_an_updater_of_ones_own_and_other_fields_keep_to_the_updater() -> None:
    class Own(KeepLetters):
        pass

    def stream(fields: str) -> tuple[TridentTopology, Any]:
        topology = TridentTopology()
        return topology, topology.newStream("letters", FixedBatchSpout(fields, []))

    names = ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in LETTER)
    for keeper, fields in ((Own(), names), (KeepLetters(), "id string, step string")):
        topology, source = stream(fields)
        source.partitionPersist(MemoryMapState.opaque(), keeper, name="kept")
        assert keeper_of(step_of(topology)) is None
