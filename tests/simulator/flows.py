"""The programs that stay what they are, by name: cut by the real compiler once, for all schedules of a process."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import Row

from tests.simulator import meanings, verbs
from tests.simulator.in_world import KEYS, LETTERS
from tests.simulator.memo import kept
from tests.simulator.programs import Shape, Stream
from tests.simulator.spouts import FromWorld
from trident import TridentTopology
from trident.compiler.program import Program
from trident.compiler.stages import cut
from trident.plan.state_schema import present_of
from trident.plan.topology_protocol import TopologyPlan

FLOWS = {
    **{"one": 25, "two": 20, "stages": 30, "query": 10, "merged": 10, "distinct": 5},
    **{"recent": 6, "table": 8, "bootstrap": 4, "several": 8, "stateful": 5},
    **{"sessions": 8, "sessions late": 3},
    **{"interval inner": 2, "interval left": 2, "interval right": 2, "interval full": 6},
    **{"window join inner": 3, "window join full": 5},
    **{"changes": 8, "upserts": 6, "timers": 6, "reminders": 6, "early": 6, "filled": 6, "backfill": 8},
}
"""And how often each is drawn."""
FORMER = {"backfill": "before a backfill"}
"""The program from which some of them grow."""


def flows_of(names: str) -> list[str]:
    """The flows whose names begin as one of these, with commas between them. Raises ValueError if there is none."""
    able = [flow for flow in FLOWS if flow.startswith(tuple(names.split(",")))]
    if not able:
        raise ValueError(f"no flow's name begins with {names!r}; there are {', '.join(FLOWS)}")
    return able


@dataclass(frozen=True)
class Flow(Shape):
    """A program that stays what it is, by its name."""

    name: str = ""

    @property
    def former(self) -> "Flow | None":
        """The program before its new states; None if it begins with all of its states."""
        return Flow.of(FORMER[self.name]) if self.name in FORMER else None

    @property
    def plan(self) -> TopologyPlan:
        return topology(self.name)

    @classmethod
    def of(cls, name: str) -> "Flow":
        return cls(tuple(Stream(stream, stream, stream) for stream in verbs.streams_of(name)), (), name=name)

    @property
    def program(self) -> Program:
        return program(self.name)

    @property
    def states(self) -> tuple[str, ...]:
        return states_of(self.name)

    def shown(self, state: str) -> Callable[[Any], Any]:
        return presenting(self.name, state)

    def due(self, state: str, batches: list[meanings.Batch]) -> int | None:
        """Return the number of keys of a state that are due at some time; None if all of them are, or none."""
        of_state = meanings.DUE.get((self.name, state))
        return None if of_state is None else of_state(batches)

    def owed(self, batches: list[meanings.Batch]) -> int:
        """Return the number of timers that must fire though the sources are silent."""
        of_flow = meanings.OWED.get(self.name)
        return 0 if of_flow is None else of_flow(batches)

    def after(self, batches: list[meanings.Batch]) -> Mapping[str, meanings.Held | meanings.Waiting]:
        """What its states hold after these batches."""
        return meanings.MEANINGS[self.name](batches)


@cache
def topology(flow: str) -> TridentTopology:
    made = TridentTopology()
    verbs.MADE[flow](lambda name, **more: made.newStream(name, FromWorld(name), **more), made)
    return made


@cache
def program(flow: str) -> Program:
    return cut(topology(flow))


@cache
def states_of(flow: str) -> tuple[str, ...]:
    return tuple(step.state.name for step in program(flow).groups[0].states)


@cache
def keys_of(flow: str, state: str) -> pa.Table | None:
    """All keys that a state may have, to be looked up; None where there are too many of them."""
    keys = program(flow).shapes[state].keys
    if keys.names == []:
        return kept(pa.table({"": pa.nulls(1)}).select([]))
    if len(keys) > 1 or keys.types != [pa.string()]:
        return None
    return kept(pa.table({keys.names[0]: pa.array(LETTERS if keys.names[0] == "letter" else KEYS, pa.string())}))


@cache
def presenting(flow: str, state: str) -> Callable[[Any], Any]:
    (writer,) = (step for step in program(flow).groups[0].states if step.state.name == state)
    present = present_of(writer)

    def shown(value: Any) -> Any:
        value = value if present is None or value is None else present(value)
        value = _plain(value)
        if not isinstance(value, dict):
            return value
        return {name: meanings.rounded(each) for name, each in value.items()}

    return shown


def _plain(value: Any) -> Any:
    """A value without rows: each is a dict."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return value.asDict(recursive=True) if isinstance(value, Row) else value
