"""What a run was told: one frozen record of every option of `start`."""

from dataclasses import dataclass, field
from pathlib import Path

from trident.base.clock import Clock, SystemClock


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
