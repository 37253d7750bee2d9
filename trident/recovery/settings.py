"""The options of a run: one frozen record of every argument of `start`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.clock import Clock, SystemClock
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.frozen.files import FrozenFolders
from trident.plan.hints import Hints
from trident_spouts.wait_strategy import WaitStrategy

if TYPE_CHECKING:
    from trident.log import RedisLog


DEFAULT_ATTEMPTS = 5
"""The number of attempts at a batch, if the user gives none."""

STATES = "states"
"""The folder of all snapshots of states in memory, relative to the place of the run's files."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a run. Times in seconds, sizes in bytes; ``TridentTopology.start`` describes them."""

    name: str
    folder: Path
    """The folder of this topology: ``<checkpointLocation>/<name>``, or a temporary one."""
    lasting: bool
    """True if the folder outlives the run."""
    objects: FileStore | None = None
    """The place of this topology's files on an object store or HDFS; None if the files lie in the folder."""
    active: bool = True
    availableNow: bool = False
    processingTime: float | None = None
    maxSpoutPending: int = 2
    maxAttempts: int | None = DEFAULT_ATTEMPTS
    retrySecs: float | None = None
    messageTimeoutSecs: float = 300.0
    commitRetrySecs: float | None = 300.0
    checkpointInterval: float = 1.0
    keepBatches: int = 1000
    rewindBytes: int = 2 << 30
    targetBatchSecs: float | None = None
    ledger: bool = False
    waitStrategy: WaitStrategy | None = None
    leaseSecs: float = 10.0
    clock: Clock = field(default_factory=SystemClock)
    log: "RedisLog | None" = None
    """The transaction log, if it is in Redis; None if it is in the folder."""
    hints: Hints = field(default_factory=dict)
    """The numbers of partitions that replace the program's, by step."""
    uuid: str = ""
    """The log's uuid, once it is open."""

    @property
    def place(self) -> FileStore:
        """The place of files for executors and outputs: on an object store or HDFS, or the folder."""
        return DiskFiles(self.folder) if self.objects is None else self.objects

    @property
    def files(self) -> FrozenFolders | None:
        """The folders for large frozen results; None if no place lasts as long as the log."""
        lasting = self.lasting or self.objects is not None or self.log is None
        return FrozenFolders(self.place, self.uuid) if lasting else None

    def snapshots(self, state: str) -> FileStore | None:
        """Return the place for the snapshots of a state in memory; None if no place outlives the run."""
        if self.objects is not None:
            return self.objects.below(f"{STATES}/{state}")
        return DiskFiles(self.folder / STATES / state, private=True) if self.lasting else None

    @property
    def scratch(self) -> Path:
        """The folder for files that are deleted at the end of an attempt.

        Its name holds the log's uuid, so that no driver of another log clears it.
        """
        return self.folder / f"scratch-{self.uuid}"

    @property
    def log_at(self) -> str:
        """The place of the log, in words for messages."""
        return f"in {self.folder}" if self.log is None else f"at {self.log!r}"

    @property
    def way_out(self) -> str:
        """The call that drops log and states, in words for messages."""
        return f"topology.reset({', '.join([repr(self.name), *self._places])}) drops log and states together"

    def drop(self, state: str, survives: str, *, force: bool = False) -> str:
        """Return the call that lets one state begin again, in words for messages.

        `survives`: the place of the state, as `survives` of its factory says. `force`: whether a driver may still hold
        the log then.
        """
        place = ["url= or factory= (where it lies)"] if survives == "server" else []
        forced = ["force=True"] if force else []
        return f"dropState({', '.join([repr(self.name), repr(state), *self._places, *place, *forced])})"

    @property
    def _places(self) -> list[str]:
        places = [f"checkpointLocation={str(self.folder.parent)!r}"] if self.lasting or self.log is None else []
        places += [f"log={self.log!r}"] if self.log is not None else []
        # The options of the store are left out: they would make the message long, and stand in the program.
        return places + ([f"filesLocation={self.files_location!r}"] if self.objects is not None else [])

    @property
    def files_location(self) -> str:
        """The filesLocation that was given: the place of all topologies' files; "" if none was given."""
        return "" if self.objects is None else self.objects.address.removesuffix(f"/{self.name}")
