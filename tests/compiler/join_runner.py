"""Run a join of two streams by time by hand, batch by batch, as in a commit turn."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from tests.compiler.stage_runner import table
from tests.compiler.window_runner import InDict, at
from trident import JoinedStream, Stream, TridentTopology
from trident.compiler.stages import cut
from trident.compiler.state_updates import compile_late, compile_state_update
from trident.compiler.states.update_types import WindowBatch
from trident.plan.nodes import LateTuples, TimeJoin
from trident.spouts import FixedBatchSpout

FIELDS = ("k string, at timestamp, n long", "k string, m long, t timestamp")
Tuple = tuple[str | None, int | None, int]
"""A key, a time, and the tuple's number."""


class Joining:
    """One join, fed batch by batch: its states are dicts, and its steps are called as in a commit turn."""

    def __init__(self, join: Callable[[Stream, Stream], JoinedStream]) -> None:
        topology = TridentTopology()
        streams: list[Stream] = [
            topology.newStream(name, FixedBatchSpout(fields, [[]])) for name, fields in zip("lr", FIELDS, strict=True)
        ]
        joined = join(*streams)
        joined.peek(str)
        for side in ("left", "right"):
            joined.late(side).peek(str)
        (group,) = cut(topology).groups
        outputs = [output for stage in group.stages for output in stage.updates]
        self._join: Any
        (self._join,) = [output.step for output in outputs if isinstance(output.step, TimeJoin)]
        self._steps = (self._join, *self._join.watermarks)
        kinds = {output.step: output.schema for output in outputs}
        self._states = {s: InDict(kinds[s].types[-1], pa.schema(list(kinds[s])[:-1])) for s in self._steps}
        self._late = {o.step.side: compile_late(o.step) for o in outputs if isinstance(o.step, LateTuples)}
        self._txid = 0
        self.restart()

    @property
    def held(self) -> int:
        """The number of entries in the state."""
        return len(self._states[self._join].values)

    def restart(self) -> None:
        """Forget what is not in the states."""
        self._run = {step: compile_state_update(step) for step in self._steps}

    def batch(self, left: Sequence[Tuple], right: Sequence[Tuple], twice: bool = False) -> tuple[list[Any], list[Any]]:
        """Feed one batch; return the rows that leave, and the numbers of the late tuples of each stream."""
        self._txid += 1
        tables = (
            table(FIELDS[0], *((k, at(time), n) for k, time, n in left)),
            table(FIELDS[1], *((k, n, at(time)) for k, time, n in right)),
        )
        marks = [self._states[mark] for mark in self._join.watermarks]
        batch = WindowBatch(self._txid, lambda: 0.0, *marks)
        entering = dict(zip(self._steps, (tables, tables[:1], tables[1:]), strict=True))
        for _ in range(2 if twice else 1):
            updates = {step: run(entering[step], self._states[step], batch) for step, run in self._run.items()}
        late = [self._late[side](tables[side], batch) for side in (0, 1)]
        for step, updated in updates.items():
            self._states[step].put(updated.puts)
        emitted = updates[self._join].emitted
        assert emitted is not None
        numbers = [late[0].column("n").to_pylist(), late[1].column("m").to_pylist()]
        return emitted.to_pylist(), numbers
