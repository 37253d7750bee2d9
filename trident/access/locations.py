"""Locations of states: a checkpoint (with its log in it or in Redis), a server, or a user's store."""

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from trident.base.errors import LogError, TopologyError
from trident.base.names import check_name
from trident.base.redis_address import Address, check_url
from trident.configuration.file_locations import files_place, folder
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.log import RedisLog
from trident.log.protocol import LogReading, TransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.recovery.folder_owner import check_location_given
from trident.run.start import LOG_FILE
from trident_state.store import StateFactory

_TIMEOUT = 10.0


@dataclass(frozen=True)
class StateLocation:
    """The arguments by which a caller locates states, checked by `read_location`."""

    checkpoint: Path | None
    log: RedisLog | None
    url: str | None
    prefix: str
    factory: StateFactory | None = None
    objects: FileStore | None = None
    """The location of all topologies' files on an object store or HDFS; None if the files are in the checkpoint."""
    owner: str | None = None
    """The uuid of the log that provided the `factory`, to which the state must belong; None if the caller gave it."""

    def place(self, topology: str, log: LogReading) -> FileStore:
        """Return the store of a topology's files: frozen results and snapshots.

        Raises LogMismatchError if the log keeps them on an object store, and the caller gave no filesLocation.
        """
        place = DiskFiles(self.folder(topology), private=True) if self.objects is None else self.objects.below(topology)
        check_location_given(place, log.files_address(), topology)
        return place

    @property
    def has_files(self) -> bool:
        """Return whether the location of the files is known."""
        return self.checkpoint is not None or self.objects is not None

    def folder(self, topology: str) -> Path:
        """Return the topology's folder in the checkpoint."""
        assert self.checkpoint is not None
        return self.checkpoint / topology

    def open_log_to_read(self, topology: str) -> LogReading:
        """Open the topology's log for reading only. Raises LogError if the topology has no log there."""
        check_name("topology", topology)
        if self.log is not None:
            return self.log.look(topology)
        folder = self.folder(topology)
        if not (folder / LOG_FILE).exists():
            known = ", ".join(map(repr, self.topologies())) or "none"
            hint = f"; {folder} exists but has no log: if the log is in Redis, give log= too" if folder.is_dir() else ""
            raise LogError(f"no topology {topology!r} under {self.checkpoint} (there is {known}){hint}")
        return SqliteLog(folder / LOG_FILE, topology, reading=True)

    def open_log_to_write(self, topology: str) -> TransactionLog:
        """Open the topology's log for writing. Raises LogError if the topology has no log there."""
        self.open_log_to_read(topology).close()  # raises an error if there is no log, instead of creating one
        return SqliteLog(self.folder(topology) / LOG_FILE, topology) if self.log is None else self.log.open(topology)

    def first_txid(self, topology: str, state: str) -> int:
        """Return the txid of a state's initial content, according to the log; 0 without a log or such content."""
        if self.checkpoint is None and self.log is None:
            return 0
        try:
            with contextlib.closing(self.open_log_to_read(topology)) as log:
                birth = log.births().get(state)
        except LogError:  # there is no log in the checkpoint: the state is read by its store alone
            return 0
        return 0 if birth is None else birth.first

    def has_memory_state(self, topology: str, state: str) -> bool:
        """Return whether the topology's log has a manifest of this state, which means that it is a state in memory."""
        if not self.has_files:
            return False
        try:
            log = self.open_log_to_read(topology)
        except LogError:
            return False
        with contextlib.closing(log):
            return bool(log.manifest(state))

    def topologies(self) -> list[str]:
        """Return the names of all topologies with a log in the checkpoint, sorted."""
        if self.checkpoint is None or not self.checkpoint.is_dir():
            return []
        return sorted(path.parent.name for path in self.checkpoint.glob(f"*/{LOG_FILE}"))

    @property
    def address(self) -> Address:
        assert self.url is not None
        return Address(self.url, _TIMEOUT / 2, _TIMEOUT)


def read_location(
    checkpointLocation: str | Path | None,
    log: RedisLog | None,
    url: str | None,
    prefix: str,
    factory: StateFactory | None = None,
    filesLocation: str | None = None,
    filesStorage: Mapping[str, str] | None = None,
) -> StateLocation:
    """Check the arguments that locate states, and return them.

    Raises TopologyError if no location is given, or if two of them contradict each other.
    """
    if log is not None and not isinstance(log, RedisLog):
        raise TopologyError(f"log= takes a RedisLog (from trident.log), not a {type(log).__name__}")
    if checkpointLocation is None and log is None and url is None and factory is None:
        raise TopologyError(
            "give the location of the states: checkpointLocation= (and log=, if the log is in Redis) for states in "
            "memory, url= for states in Redis, or factory= for your own store"
        )
    if url is not None and factory is not None:
        raise TopologyError("url= and factory= both name a store; give one of them")
    if url is not None:
        check_url(url)
    checkpoint = None if checkpointLocation is None else folder(checkpointLocation)
    objects = files_place(filesLocation, filesStorage)
    return StateLocation(checkpoint, log, url, prefix, factory, objects)
