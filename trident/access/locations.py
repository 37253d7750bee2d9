"""Where states are looked for: a checkpoint (and a log in Redis), a server, or a store of somebody's own."""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from trident.base.errors import LogError, TopologyError
from trident.base.names import check_name
from trident.log import RedisLog
from trident.log.protocol import LogReading, TransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.run.options import folder
from trident.run.start import LOG_FILE
from trident_state.redis.address import Address, check_url
from trident_state.store import StateFactory

_TIMEOUT = 10.0


@dataclass(frozen=True)
class Place:
    """What a caller said of where states are; `read_place` makes sure that it means something."""

    checkpoint: Path | None
    log: RedisLog | None
    url: str | None
    prefix: str
    factory: StateFactory | None = None

    def folder(self, topology: str) -> Path:
        """The topology's own folder under the checkpoint."""
        assert self.checkpoint is not None
        return self.checkpoint / topology

    def look(self, topology: str) -> LogReading:
        """The topology's log, only to be read. Raises LogError where there is none."""
        check_name("topology", topology)
        if self.log is not None:
            return self.log.look(topology)
        path = self.folder(topology) / LOG_FILE
        if not path.exists():
            there = ", ".join(repr(name) for name in self.topologies()) or "none"
            raise LogError(
                f"no topology {topology!r} under {self.checkpoint} (there is {there}){self._elsewhere(topology)}"
            )
        return SqliteLog(path, topology, reading=True)

    def keeps(self, topology: str, state: str) -> bool:
        """Whether this is the checkpoint of a state in memory of that name."""
        if self.checkpoint is None:
            return False
        try:
            log = self.look(topology)
        except LogError:
            return False
        with contextlib.closing(log):
            return bool(log.manifest(state))

    def _elsewhere(self, topology: str) -> str:
        folder = self.folder(topology)
        return f"; {folder} is there, and has no log: if that is in Redis, say log= too" if folder.is_dir() else ""

    def take(self, topology: str) -> TransactionLog:
        """The topology's log, to be written."""
        self.look(topology).close()  # nothing is made where there is none
        return SqliteLog(self.folder(topology) / LOG_FILE, topology) if self.log is None else self.log.open(topology)

    def topologies(self) -> list[str]:
        """Those that have a log in the checkpoint."""
        if self.checkpoint is None or not self.checkpoint.is_dir():
            return []
        return sorted(path.parent.name for path in self.checkpoint.glob(f"*/{LOG_FILE}"))

    @property
    def address(self) -> Address:
        assert self.url is not None
        return Address(self.url, _TIMEOUT / 2, _TIMEOUT)


def read_place(
    checkpointLocation: str | Path | None,
    log: RedisLog | None,
    url: str | None,
    prefix: str,
    factory: StateFactory | None = None,
) -> Place:
    """Refuse what does not say where states are, or says it twice."""
    if log is not None and not isinstance(log, RedisLog):
        raise TopologyError(f"log= takes a RedisLog (from trident.log), not a {type(log).__name__}")
    given = [name for name, value in (("url=", url), ("factory=", factory)) if value is not None]
    if not given and checkpointLocation is None and log is None:
        raise TopologyError(
            "say where the states are: checkpointLocation= (and log=, if the log is in Redis) of states in memory, "
            "url= of states in Redis, or factory= of a store of your own"
        )
    if len(given) > 1:
        raise TopologyError("url= and factory= say the same thing twice; give one")
    if url is not None:
        check_url(url)
    checkpoint = None if checkpointLocation is None else folder(checkpointLocation)
    return Place(checkpoint, log, url, prefix, factory)
