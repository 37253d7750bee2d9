"""The disk of runs that fill new states with earlier tuples: their logs, and the states in memory that they have."""

from dataclasses import dataclass, replace
from typing import Any, Literal

from tests.simulator.fake_log import LogDisk
from tests.simulator.in_world import Worlds
from trident.plan.nodes import StateSpec
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Home, Store


class SideDisks:
    """The logs of such runs, by folder."""

    def __init__(self) -> None:
        self._disks: dict[str, LogDisk] = {}
        self._made = 0

    def at(self, folder: Any) -> LogDisk:
        """The log in this folder, which is made if there is none."""
        if str(folder) not in self._disks:
            self._made += 1
            self._disks[str(folder)] = LogDisk(uuid=f"side{self._made}")
        return self._disks[str(folder)]

    def lose(self, count: int) -> None:
        """A power loss takes the last writes that no fsync followed."""
        for disk in self._disks.values():
            disk.lose(count)

    def remove(self, folder: Any) -> None:
        """Remove all below a folder; a driver that still has a log of them open notices it."""
        for path in [path for path in self._disks if path.startswith(f"{folder}/")]:
            self._disks.pop(path).uuid = "removed"


def removed(folder: Any, ignore_errors: bool) -> None:
    """As `shutil.rmtree`, in the world that is simulated just now."""
    Worlds.now.side_disks.remove(folder)


def in_memory(state: StateSpec) -> StateSpec:
    """In the place of `trident.run.backfill._in_memory`: as it, over the world's disk and clock."""
    return replace(state, factory=_InMemory(), evolve=())


@dataclass(frozen=True)
class _InMemory:
    """A state in memory of the world that is simulated just now."""

    kind: StateKind = StateKind.TRANSACTIONAL
    survives: Literal["checkpoint"] = "checkpoint"
    writers: Literal["driver"] = "driver"
    sendable: bool = True

    def open(self, identity: StateIdentity, shape: StateShape, home: Home) -> Store:
        store: Store = Worlds.now.setting.in_memory(identity, shape, self.kind, home)
        return store
