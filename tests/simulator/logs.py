"""The log's own server, and the network to it: commands that are lost, late and doubled."""

from collections.abc import Sequence
from typing import Any

from tests.simulator.fake_redis import FakeRedis
from tests.simulator.network import Fault, Late, Network
from trident.log.log_server import CREATE

_CREATE = CREATE.sha


class LogServer(FakeRedis):
    """A server that keeps a log: it loses nothing, and tells which batches are frozen and committed on it."""

    def __init__(self) -> None:
        super().__init__()
        self.holders: dict[bytes, Any] = {}
        """The driver that made up each token."""

    def _set(self, undo: Any, name: bytes, fields: dict[bytes, bytes]) -> None:
        before = self.data.get(name, {}).get(b"frozen"), self.data.get(name, {}).get(b"committed")
        super()._set(undo, name, fields)
        if b":log:g:" not in name or not (b"frozen" in fields or b"committed" in fields):
            return
        driver, group = self.holders.get(self.writer), name.rpartition(b":log:g:")[2].decode()
        if driver is None:
            return
        founded = b"frozen" in fields and b"committed" in fields  # a group whose txids follow another one's
        if not founded and fields.get(b"frozen") not in (None, before[0]):
            driver.froze(group, int(fields[b"frozen"]))
        if not founded and fields.get(b"committed") not in (None, before[1]):
            driver.committed(group, int(fields[b"committed"]))

    def _remove(self, undo: Any, name: bytes, field: bytes) -> None:
        at = self.data.get(name, {})
        _, founding, state = field.partition(b"founding:")
        founded = founding and field in at and b"birth:" + state in at  # else it is forgotten
        super()._remove(undo, name, field)
        driver = self.holders.get(self.writer)
        if founded and driver is not None and name.endswith(b":log:s"):
            driver.founded([state.decode()])


class LogNetwork(Network):
    """Commands that are late here may come when much else has happened. They are writes: nobody hears a late read."""

    def take_fault(self, commands: Sequence[list[bytes]] = ()) -> Fault | None:
        if self.fault in ("late", "twice") and any(command[0] != b"EVALSHA" for command in commands):
            return None
        if self.fault == "twice" and any(command[1] == _CREATE for command in commands):
            return None  # a start sends it once: a late copy of it after a reset would make a log with the same uuid
        return super().take_fault(commands)

    def arrive_later(self, late: Late) -> None:
        chance = self.scheduler.random
        self.scheduler.after(chance.choice((0.0, 0.01, 0.1, 1.0)), lambda: super(LogNetwork, self).arrive_later(late))
