"""What a run was told: one frozen record of every option of `start`."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from trident.base.clock import Clock, SystemClock
from trident.compiler.spark.frozen_files import FrozenPlace

if TYPE_CHECKING:
    from trident.log import RedisLog


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of a run. Times in seconds, sizes in bytes; the meanings stand at ``TridentTopology.start``."""

    name: str
    folder: Path
    """Of this topology alone: ``<checkpointLocation>/<name>``, or a temporary one."""
    lasting: bool
    """Whether the folder outlives the run."""
    availableNow: bool = False
    processingTime: float | None = None
    maxSpoutPending: int = 2
    maxAttempts: int = 5
    messageTimeoutSecs: float = 300.0
    commitRetrySecs: float | None = 300.0
    checkpointInterval: float = 1.0
    keepBatches: int = 1000
    rewindBytes: int = 2 << 30
    clock: Clock = field(default_factory=SystemClock)
    log: "RedisLog | None" = None
    """Where the transaction log is, if not in the folder."""
    uuid: str = ""
    """The log's own, once it is opened."""

    @property
    def files(self) -> FrozenPlace | None:
        """Where large results are frozen as files; None where no folder lives as long as the log."""
        return FrozenPlace(self.folder, self.uuid) if self.lasting or self.log is None else None

    @property
    def scratch(self) -> Path:
        """Where attempts put what ends with them: the log's own place, which no driver of another log clears."""
        return self.folder / f"scratch-{self.uuid}"

    @property
    def log_at(self) -> str:
        """Where the log is, as messages say it."""
        return f"in {self.folder}" if self.log is None else f"at {self.log!r}"

    @property
    def way_out(self) -> str:
        """What gives log and states up, as messages say it."""
        return f"topology.reset({', '.join([repr(self.name), *self._places])}) drops log and states together"

    def drop(self, state: str, survives: str, *, force: bool = False) -> str:
        """What lets one state begin anew, as messages say it. `survives`: what its factory's states outlive. `force`:
        whether a driver holds the log then."""
        place = ["url= or factory= (where it lies)"] if survives == "server" else []
        forced = ["force=True"] if force else []
        return f"dropState({', '.join([repr(self.name), repr(state), *self._places, *place, *forced])})"

    @property
    def _places(self) -> list[str]:
        places = [f"checkpointLocation={str(self.folder.parent)!r}"] if self.lasting or self.log is None else []
        return places + ([f"log={self.log!r}"] if self.log is not None else [])
