"""Run a window by hand, batch by batch: its states are dicts, and its steps are called as in a commit turn."""

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from tests.compiler.stage_runner import table
from trident import EarlyStream, Stream, TridentTopology, WindowedStream
from trident.base.attempt import TransactionAttempt
from trident.compiler.arrow.engine import ArrowEngine
from trident.compiler.program import Group
from trident.compiler.stages import cut
from trident.compiler.state_updates import compile_late, compile_state_update
from trident.compiler.states.update_types import WindowBatch
from trident.plan.nodes import LateTuples, SpoutSource, Watermark, Window
from trident.spouts import FixedBatchSpout
from trident_spouts.emission import ArrowEmission

FIELDS = "k string, at timestamp, n long"
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def at(seconds: float | None) -> datetime.datetime | None:
    """Return the time that is this number of seconds after the beginning of all windows."""
    return None if seconds is None else EPOCH + datetime.timedelta(seconds=seconds)


def secs(time: datetime.datetime) -> float:
    """Return the seconds of a time; the inverse of `at`."""
    return (time - EPOCH).total_seconds()


@dataclass
class InDict:
    """A state as the batch before left it."""

    kind: pa.DataType
    keys: pa.Schema
    values: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def read(self, keys: pa.Table) -> pa.Array:
        rows = [tuple(row.values()) for row in keys.to_pylist()] if keys.num_columns else [()] * keys.num_rows
        return pa.array([self.values.get(row) for row in rows], self.kind)

    def scan(self) -> Iterator[pa.Table]:
        """Yield all entries, in an arbitrary order."""
        rows = sorted(self.values.items(), key=lambda item: repr(item)[::-1])
        columns = [pa.array([key[at] for key, _ in rows], each.type) for at, each in enumerate(self.keys)]
        schema = self.keys.append(pa.field("value", self.kind))
        yield pa.Table.from_arrays([*columns, pa.array([value for _, value in rows], self.kind)], schema=schema)

    def put(self, puts: pa.Table) -> None:
        rows = [tuple(row.values()) for row in puts.to_pylist()]
        assert len({row[:-1] for row in rows}) == len(rows), "each key once"
        for *key, value in rows:
            if value is None:
                self.values.pop(tuple(key), None)
            else:
                self.values[tuple(key)] = value


def states_of(group: Group) -> dict[str, InDict]:
    """Return empty states for a group's windows."""
    outputs = [o for s in group.stages for o in s.updates if isinstance(o.step, Window | Watermark)]
    return {o.name: InDict(o.schema.types[-1], pa.schema(list(o.schema)[:-1])) for o in outputs}


class Windowed:
    """One window of one stream, fed batch by batch."""

    def __init__(
        self, build: Callable[[Stream], WindowedStream | EarlyStream], fields: str = FIELDS, late: bool = False
    ) -> None:
        topology = TridentTopology()
        windowed = build(topology.newStream("s", FixedBatchSpout(fields, [[]])))
        if late:
            windowed.late().peek(str)
        windowed.peek(str)
        (self._group,) = cut(topology).groups
        self._fields = fields
        nodes = [o.step for s in self._group.stages for o in s.updates]
        (self.window,) = [node for node in nodes if isinstance(node, Window)]
        self._marks = [node for node in nodes if isinstance(node, Watermark)]
        self._late = [node for node in nodes if isinstance(node, LateTuples)]
        self.states = states_of(self._group)
        self.txid = 0
        self.restart()

    def restart(self) -> None:
        """Forget what is not in the states."""
        self._run = {node: compile_state_update(node) for node in [self.window, *self._marks]}
        self._late_run = [(node, compile_late(node)) for node in self._late]
        self._slot = ArrowEngine().slot(self._group)

    def batch(
        self, rows: Sequence[tuple[Any, ...]], time: float = 0.0, twice: bool = False
    ) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
        """Feed one batch; return its results and its late tuples. `twice`: the first results are lost unfrozen."""
        self.txid += 1
        tables = self._entering(rows)
        mark = self.states[self._marks[0].state.name] if self._marks else None
        batch = WindowBatch(self.txid, lambda: time, mark)
        for _ in range(2 if twice else 1):
            updates = {
                node.state.name: run([tables[id(node.source)]], self.states[node.state.name], batch)
                for node, run in self._run.items()
            }
        late = [
            tuple(row.values())
            for node, run in self._late_run
            for row in run(tables[id(node.source)], batch).to_pylist()
        ]
        for name, updated in updates.items():
            self.states[name].put(updated.puts)
        emitted = updates[self.window.state.name].emitted
        assert emitted is not None
        return [tuple(row.values()) for row in emitted.to_pylist()], late

    def _entering(self, rows: Sequence[tuple[Any, ...]]) -> dict[int, pa.Table]:
        """Return the outputs of the first stage for a batch."""
        first = self._group.stages[0]
        (spout,) = self._group.spouts
        assert isinstance(spout, SpoutSource)
        emissions = {spout: ArrowEmission(table(self._fields, *rows))}
        result = self._slot.run(first, emissions, TransactionAttempt(self.txid, 0), None)  # type: ignore[arg-type]
        return {id(output.step): result.results[output.name] for output in first.outputs}  # type: ignore[misc]
