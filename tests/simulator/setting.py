"""Where a schedule keeps its states, of which kind they are, and who writes them, all drawn by chance."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from random import Random
from typing import Any, Literal

from tests.simulator.network import FakeAddress, Network
from tests.simulator.scheduler import Scheduler
from trident.files.delta_folder import TableFolder
from trident_state.delta import compaction, data_files, maintenance
from trident_state.delta.store import DeltaStore
from trident_state.memory.store import MemoryStore, Pace
from trident_state.records.forms import ValueForm
from trident_state.redis.layout import Layout
from trident_state.redis.store import RedisStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store

_layout = cache(Layout)

EXECUTORS = 0.3
"""In how many of the schedules with states in Redis executors write and ask them."""


DELTA = 0.04
"""In how many schedules states are Delta tables."""


@dataclass
class DeltaSetting:
    """The sizes at which the upkeep of Delta tables does something, small enough for a schedule of a few batches."""

    least: int
    most: int
    small: int
    rows: int
    checkpoint_every: int
    clean_every: float
    many: int
    row_group: int
    cache: int
    hour: float
    """The seconds of an hour, for which files stay that no version has."""
    log_kept: float
    """The seconds for which versions stay that are older than a checkpoint."""

    @classmethod
    def draw(cls, dice: Random) -> "DeltaSetting":
        """Draw them."""
        return cls(
            least=dice.choice((2, 2, 3, 4)),
            most=dice.choice((2, 3, 32)),
            small=dice.choice((1, 1, 4_096)),
            rows=dice.choice((1, 2, 1_000_000)),
            checkpoint_every=dice.choice((2, 4, 100)),
            clean_every=dice.choice((0.0, 0.1, 600.0)),
            many=dice.choice((1, 3, 40)),
            row_group=dice.choice((1, 16_384)),
            cache=dice.choice((0, 2_000, 1 << 20)),
            hour=dice.choice((2.5, 3_600.0)),
            log_kept=dice.choice((2.5, 3_600.0)),
        )

    def apply(self) -> None:
        """Let the library's code go by them."""
        vars(compaction).update(LEAST=self.least, MOST=self.most, _SMALL=self.small, _ROWS=self.rows)
        vars(maintenance).update(
            CHECKPOINT_EVERY=self.checkpoint_every, _CLEAN_EVERY=self.clean_every, _MANY=self.many, _PAUSE=0.1
        )
        vars(data_files).update(ROW_GROUP=self.row_group)


class Setting:
    """Drawn once a schedule, in one order: a seed tells everything."""

    def __init__(self, scheduler: Scheduler, states: Sequence[str]) -> None:
        self._scheduler, chance = scheduler, scheduler.random
        self.kind = chance.choice((StateKind.OPAQUE, StateKind.TRANSACTIONAL))
        places = chance.choice((("memory",), ("redis",), ("memory", "redis")))
        self.homes = {state: chance.choice(places) for state in states}
        self._in_python = chance.random() < 0.3
        self.groups = chance.choice((1, 1, 2))
        self._buckets = self.groups * chance.choice((1, 2))
        self._form: ValueForm = "json" if chance.random() < 0.05 else "packed"
        self._pace = Pace(chance.choice((1, 2**30)), chance.choice((0.5, 30.0)), chance.choice((2, 500)))
        self.put_keys = chance.choice((1, 2, 1000))
        self.topology = "sim"
        """The name of the topology: that of the fork, once there is one."""
        self.delta: DeltaSetting | None = None
        """That of states in Delta tables, if there are some."""
        self.writers: Literal["driver", "executors", "auto"] = "driver"
        self.sees_files = True
        self.large = 0.0
        """How many of the results are large."""
        self.part_rows = 1000
        self.copies = False
        """Whether somebody copies the log early, and may put the copy back: then a late put holds another batch of its
        txid."""

    def draw_delta(self, dice: Random, asked: bool) -> None:
        """Draw whether states are Delta tables. `asked`: some certainly are."""
        if not asked and dice.random() >= DELTA:
            return
        self.delta = DeltaSetting.draw(dice)
        some = {state for state in self.homes if dice.random() < 0.7} or {dice.choice([*self.homes])}
        self.homes |= dict.fromkeys(some, "delta")
        self._scheduler.in_fibers = dice.choice((0.3, 0.7))  # merges go on beside batches

    def draw_executors(self, dice: Random, asked: bool) -> None:
        """What executors do. `asked`: they certainly write."""
        shared = {"redis", "delta"} & {*self.homes.values()}
        if asked and not shared:
            self.homes[dice.choice([*self.homes])] = "redis"
        if asked or (shared and dice.random() < EXECUTORS):
            self.writers = dice.choice(("executors", "auto"))
            self.sees_files = self.writers == "executors" or dice.random() < 0.9
            self.large = dice.choice((0.7, 1.0))
            self.part_rows = dice.choice((1, 2, 1000))
            self.copies = dice.random() < 0.1

    def tag(self) -> bytes:
        """One of the hash tags of the states."""
        chance = self._scheduler.random
        return b"{%b}" % chance.choice(self.tags(chance.choice(sorted(self.homes))))

    def tags(self, state: str) -> list[bytes]:
        """What is hashed of a state's names on the server, one for each of its groups."""
        name = f"{self.topology}/{state}".encode()
        return [name] if self.groups == 1 else [b"%b/%d" % (name, number) for number in range(self.groups)]

    def in_memory(self, identity: StateIdentity, shape: StateShape, kind: StateKind, home: Home) -> Store:
        """A state in memory, with snapshots on the world's disk."""
        return MemoryStore(identity, shape, kind, home, None, self._pace, self._scheduler, lambda name, work: work())

    def open_store(self, identity: StateIdentity, shape: StateShape, home: Home, network: Network) -> Store:
        """A state where this schedule keeps it: the library's own stores."""
        if self.homes[identity.name] == "memory":
            return self.in_memory(identity, shape, self.kind, home)
        if self._in_python:
            shape = _combined_in_python(shape)
        if self.homes[identity.name] == "delta":
            assert self.delta is not None
            folder = TableFolder(f"sim://states/{identity.topology}/{identity.name}", owner="DeltaMapState")
            return DeltaStore(identity, shape, self.kind, folder, None, self.delta.cache, 1)
        address: Any = FakeAddress(network)
        layout = _layout("p", identity, self._buckets, self.groups)
        return RedisStore(identity, shape, self.kind, address, layout, self._form)


@cache
def _combined_in_python(shape: StateShape) -> StateShape:
    return replace(shape, combine=replace(shape.combine, native=None))
