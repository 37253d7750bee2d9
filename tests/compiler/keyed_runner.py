"""Run an update key by key as workers do: tasks that each have some keys, over a state that is a dict."""

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from trident import TridentTopology
from trident.compiler.keyed_job import KeyedJob
from trident.compiler.spark.keyed_jobs import functions_of
from trident.compiler.stages import cut
from trident.plan.nodes import Emitted, StateUpdate
from trident.spouts import FixedBatchSpout
from trident_state.keys import encode_keys

FIELDS = "k double, n long"


class Last:
    """An aggregator over a window that gives one tuple for each of its tuples."""

    outputFields = "seen long"

    def init(self, batchId: Any, collector: Any) -> list[int]:
        return []

    def aggregate(self, state: list[int], tuple: Any, collector: Any) -> None:
        state.append(tuple.n)

    def complete(self, state: list[int], collector: Any) -> None:
        for n in state:
            collector.emit([n])


def update_of(make: Any, fields: str = FIELDS) -> tuple[StateUpdate, pa.Schema, pa.Schema | None]:
    """Return a program's update, and the fields of its puts and of what it emits."""
    topology = TridentTopology()
    make(topology.newStream("s", FixedBatchSpout(fields, [])))
    (group,) = cut(topology).groups
    outputs = [output for stage in group.stages for output in stage.updates]
    (update,) = (o for o in outputs if isinstance(o.step, StateUpdate) and o.name == "held")
    emitted = [o.schema for o in outputs if isinstance(o.step, Emitted)]
    assert isinstance(update.step, StateUpdate)
    return update.step, update.schema, emitted[0] if emitted else None


class Held:
    """A state between two batches, by the bytes of its keys."""

    def __init__(self, puts: pa.Schema) -> None:
        self.keys, self.value = pa.schema(list(puts)[:-1]), puts[-1]
        self.rows: dict[bytes, pa.Scalar] = {}

    def read(self, keys: pa.Table) -> pa.Array:
        found = [self.rows.get(key.as_py()) for key in encode_keys(keys)]
        return pa.array([None if row is None else row.as_py() for row in found], self.value.type)

    def scan(self) -> Iterator[pa.Table]:
        raise AssertionError("the driver of these updates lists nothing")

    def apply(self, puts: pa.Table) -> None:
        keys = encode_keys(puts.select(self.keys.names))
        assert len(set(keys.to_pylist())) == len(keys)
        for key, value in zip(keys.to_pylist(), puts.column(puts.num_columns - 1), strict=True):
            if value.is_valid:
                self.rows[key] = value
            else:
                self.rows.pop(key, None)

    @property
    def contents(self) -> dict[bytes, Any]:
        return {key: value.as_py() for key, value in self.rows.items()}


def by_tasks(job: KeyedJob, tasks: int, draw: random.Random) -> list[pa.RecordBatch]:
    """Run a job as Spark does, with tasks that are doubled, and rows that arrive in any order. Return the reports."""
    cut_by_key, update_keys = functions_of(job, tasks)
    arrived: dict[int, list[pa.RecordBatch]] = {}
    for number in draw.sample(range(job.parts), job.parts):
        for row in cut_by_key(iter([pa.RecordBatch.from_pydict({"id": [number]})])):
            arrived.setdefault(row.column("task")[0].as_py(), []).append(row)
    reports = []
    for rows in arrived.values():
        draw.shuffle(rows)
        tries = [
            list(update_keys(iter(rows))) for _ in range(draw.choice([1, 1, 2]))
        ]  # a second try of which one counts
        reports += draw.choice(tries)
    return reports


def rows_by_key(table: pa.Table | None) -> dict[str, list[Any]]:
    """Return the rows of each key, in their order; NaN is one key."""
    rows: dict[str, list[Any]] = {}
    for row in [] if table is None else table.to_pylist():
        rows.setdefault(repr(row["k"] or 0.0 if row["k"] is not None else None), []).append(repr(row))
    return rows


KEYS = [0.0, -0.0, 1.0, 2.0, float("nan"), None]
