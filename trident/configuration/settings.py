"""The settings of a run: the options of its start, and the values derived from them."""

from dataclasses import dataclass, field, fields
from pathlib import Path

from trident.base.clock import Clock, SystemClock
from trident.base.discard_advice import reset_with
from trident.configuration.file_locations import files_place
from trident.configuration.start_options import OptionValues
from trident.files.disk import DiskFiles
from trident.files.store import FileStore
from trident.frozen.files import FrozenFolders
from trident.plan.parallelism_hints import Hints

STATES = "states"
"""The folder of all snapshots of states in memory, relative to the root of the run's files."""


NOWHERE = Path("/")
"""The folder in the settings of a run without a checkpointLocation, until a temporary folder is made."""


@dataclass(frozen=True, slots=True)
class Settings(OptionValues):
    """The options of a run as in `OptionValues`, and the values derived from them. Sizes are in bytes."""

    folder: Path
    """The folder of this topology: ``<checkpointLocation>/<name>``, or a temporary one."""
    lasting: bool
    """True if the folder outlives the run."""
    objects: FileStore | None = None
    """The store of this topology's files on an object store or HDFS; None if the files are in the folder."""
    hints: Hints = field(default_factory=dict)
    """The numbers of partitions, by step, that replace those in the program."""
    clock: Clock = field(default_factory=SystemClock)
    checkpointInterval: float = 1.0
    keepBatches: int = 1000
    uuid: str = ""
    """The log's uuid, once it is open."""

    @classmethod
    def of(cls, values: OptionValues, hints: Hints, clock: Clock) -> "Settings":
        """Return the settings of a run with these options. Raises TopologyError for an invalid location."""
        objects = files_place(values.filesLocation, values.filesStorage)
        checkpoint = values.checkpointLocation
        return cls(
            NOWHERE if checkpoint is None else checkpoint / values.name,
            checkpoint is not None,
            None if objects is None else objects.below(values.name),
            hints,
            clock,
            **{each.name: getattr(values, each.name) for each in fields(OptionValues)},
        )

    @property
    def place(self) -> FileStore:
        """The store of files for executors and outputs: on an object store or HDFS, or in the folder."""
        return DiskFiles(self.folder) if self.objects is None else self.objects

    @property
    def files(self) -> FrozenFolders | None:
        """The folders for large frozen results; None if no file store lasts as long as the log."""
        lasting = self.lasting or self.objects is not None or self.log is None
        return FrozenFolders(self.place, self.uuid) if lasting else None

    def snapshots(self, state: str) -> FileStore | None:
        """Return the file store for the snapshots of a state in memory; None if no file store outlives the run."""
        if self.objects is not None:
            return self.objects.below(f"{STATES}/{state}")
        return DiskFiles(self.folder / STATES / state, private=True) if self.lasting else None

    @property
    def scratch(self) -> Path:
        """The folder for files that are deleted at the end of an attempt.

        Its name holds the log's uuid, so that no driver of another log deletes its files.
        """
        return self.folder / f"scratch-{self.uuid}"

    @property
    def log_at(self) -> str:
        """The location of the log, in words for messages."""
        return f"in {self.folder}" if self.log is None else f"at {self.log!r}"

    @property
    def way_out(self) -> str:
        """The call and the command that drop log and states, in words for messages."""
        return f"{reset_with(', '.join([repr(self.name), *self._places]))} deletes the log and all states"

    def drop(self, state: str, survives: str, *, force: bool = False) -> str:
        """Return the call that drops one state, as text for messages.

        `survives` is the attribute of the state's factory. `force` says whether a driver may still hold the log at that
        time.
        """
        place = ["url= or factory= (its location)"] if survives == "server" else []
        forced = ["force=True"] if force else []
        return f"dropState({', '.join([repr(self.name), repr(state), *self._places, *place, *forced])})"

    @property
    def _places(self) -> list[str]:
        places = [f"checkpointLocation={str(self.folder.parent)!r}"] if self.lasting or self.log is None else []
        places += [f"log={self.log!r}"] if self.log is not None else []
        # The options of the store are left out: they would make the message long, and the user has them in the program.
        return places + ([f"filesLocation={self.files_location!r}"] if self.objects is not None else [])

    @property
    def files_location(self) -> str:
        """The filesLocation that was given, where all topologies' files are; "" if none was given."""
        return "" if self.objects is None else self.objects.address.removesuffix(f"/{self.name}")
