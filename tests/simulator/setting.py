"""What a schedule runs on: a topology, its sources, and states of some kind in some place, all drawn by chance."""

from dataclasses import replace
from functools import cache
from random import Random
from typing import Any, Literal

from tests.simulator import flows
from tests.simulator.network import FakeAddress, Network
from tests.simulator.scheduler import Scheduler
from tests.simulator.spouts import Source, Tuple
from trident_state.memory.store import MemoryStore, Pace
from trident_state.records.forms import ValueForm
from trident_state.redis.layout import Layout
from trident_state.redis.store import RedisStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store

EXECUTORS = 0.3
"""In how many of the schedules with states in Redis executors write and ask them."""


class Setting:
    """Drawn once a schedule, in one order: a seed tells everything."""

    def __init__(self, scheduler: Scheduler, flow: str = "", seed: int = 0, executors: bool = False) -> None:
        self._scheduler, chance = scheduler, scheduler.random
        able = [name for name in flows.FLOWS if name.startswith(tuple(flow.split(",")))]
        self.flow = chance.choices(able, [flows.FLOWS[name] for name in able])[0]
        self.program = flows.program(self.flow)
        self.group = self.program.groups[0].name
        self.states = flows.states_of(self.flow)
        self.kind = chance.choice((StateKind.OPAQUE, StateKind.TRANSACTIONAL))
        places = chance.choice((("memory",), ("redis",), ("memory", "redis")))
        self.homes = {state: chance.choice(places) for state in self.states}
        self._in_python = chance.random() < 0.3
        self.groups = chance.choice((1, 1, 2))
        self._buckets = self.groups * chance.choice((1, 2))
        self._form: ValueForm = "json" if chance.random() < 0.05 else "packed"
        self._pace = Pace(chance.choice((1, 2**30)), chance.choice((0.5, 30.0)), chance.choice((2, 500)))
        self.sources = self._sources(chance)
        self.tuples = [row for source in self.sources.values() for row in source.tuples()]
        self.poison = chance.choice(self.tuples)[1] if chance.random() < 0.04 else None
        """The tuple that always fails."""
        self._draw_executors(Random(f"{seed}/executors"), executors)

    def _draw_executors(self, dice: Random, asked: bool) -> None:
        """What executors do. By draws of its own, so that the other schedules stay as they were."""
        if asked and "redis" not in self.homes.values():
            self.homes[dice.choice(self.states)] = "redis"
        able = "redis" in self.homes.values()
        self.writers: Literal["driver", "executors", "auto"] = "driver"
        if asked or (able and dice.random() < EXECUTORS):
            self.writers = dice.choice(("executors", "auto"))
        self.sees_files = self.writers == "executors" or dice.random() < 0.9
        self.large = 0.0 if self.writers == "driver" else dice.choice((0.7, 1.0))
        """How many of the results are large."""
        self.part_rows = dice.choice((1, 2, 1000))
        self.copies = self.large > 0 and dice.random() < 0.1
        """Whether somebody copies the log early, and may put the copy back: then a late put holds another batch of its
        txid."""

    def _sources(self, chance: Random) -> dict[str, Source]:
        sources, seq = dict[str, Source](), 0
        for name in flows.streams_of(self.flow):
            opaque = chance.random() < 0.6
            partitions: dict[str, list[Tuple]] = {}
            for partition in ("p", "q")[: 2 if opaque else 1]:
                count = chance.randint(1, 7 if opaque else 12)
                partitions[partition] = [(chance.choice(flows.KEYS), seq + at) for at in range(count)]
                seq += count
            source = Source(partitions, opaque, not opaque or chance.random() < 0.5, self._scheduler)
            sources[name] = source
            if chance.random() < 0.3:  # the rest comes later
                source.shown = {p: chance.randint(0, len(rows)) for p, rows in partitions.items()}
                self._scheduler.after(chance.choice((0.01, 0.3, 3.0)), source.show_all)
            seq += -seq % 12  # so that the times of all streams begin alike
        return sources

    def open_store(self, identity: StateIdentity, shape: StateShape, home: Home, network: Network) -> Store:
        """A state where this schedule keeps it: the library's own stores."""
        if self.homes[identity.name] == "memory":
            return MemoryStore(
                identity, shape, self.kind, home, None, self._pace, self._scheduler, lambda name, work: work()
            )
        if self._in_python:
            shape = _combined_in_python(self.flow, identity.name)
        address: Any = FakeAddress(network)
        layout = _layout(identity, self._buckets, self.groups)
        return RedisStore(identity, shape, self.kind, address, layout, self._form)


@cache
def _combined_in_python(flow: str, state: str) -> StateShape:
    shape = flows.program(flow).shapes[state]
    return replace(shape, combine=replace(shape.combine, native=None))


@cache
def _layout(identity: StateIdentity, buckets: int, groups: int) -> Layout:
    return Layout("p", identity, buckets, groups)
