"""Which typed stop is the right answer after which faults. Whatever is not named here is wrong."""

from typing import TYPE_CHECKING, Literal

from trident.base.errors import (
    BatchFailedError,
    BatchTimeoutError,
    CallHangsError,
    FencedError,
    LogCorruptError,
    LogError,
    SparkFailedError,
    StateAheadError,
    StateBehindError,
    StateFullError,
    StateLostError,
    StateRecoveringError,
    StateUnavailableError,
    UserFunctionError,
)

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

_STORE = {"server killed", "server rewound", "one hash tag rewound", "server emptied", "network"}
OF_STAGES = (UserFunctionError, BatchTimeoutError, SparkFailedError)
"""Errors after which a stage, a commit or a heal is tried as often as a batch has attempts."""
_PASSING = (StateUnavailableError, StateFullError, StateBehindError, StateRecoveringError)


class Seen:
    """Which faults there were."""

    def __init__(self) -> None:
        self.copied = False
        """An older copy of the log was put back."""
        self.files_lost = False
        """A file of a published snapshot is gone."""
        self.lost_writes = 0
        self.kinds: set[str] = set()


def why_right(world: "World", driver: "Driver", error: BaseException) -> Literal["again", "final"] | None:
    """Whether a driver was right to stop with this error: None if not, "again" if the next start goes on, "final" if
    only a human can."""
    seen = world.seen
    if isinstance(error, FencedError):  # a later driver has the log; after an older copy: epochs are given twice
        lease = driver.begun.lease if driver.begun is not None else None
        taken = seen.copied or lease is None or world.disk.epoch > lease.epoch
        return "again" if taken and len(world.drivers) > 1 else None
    if isinstance(error, BatchFailedError) and "the driver died" in str(error):
        return "again" if len(world.drivers) > world.settings.maxAttempts else None
    if isinstance(error, BatchFailedError):
        if max(driver.failures.values(), default=0) < world.settings.maxAttempts:
            return None
        return "final" if world.setting.poison is not None and _poisoned(driver) else "again"
    if isinstance(error, SparkFailedError) and driver.run is None:  # a start heals what is behind, by executors too
        return "again" if any(kind.startswith("task") for kind in seen.kinds) else None
    if isinstance(error, OF_STAGES):  # a later stage, again and again, or the last to fail
        often = driver.stage_failures >= world.settings.maxAttempts or isinstance(error, CallHangsError)
        return "again" if often or (seen.kinds & _STORE and _repeated(driver)) else None
    if isinstance(error, StateLostError):
        return "final" if _lost(world) else None
    if isinstance(error, _PASSING):  # while starting, or after commitRetrySecs
        return "again" if seen.kinds & _STORE else None
    if isinstance(error, LogCorruptError) and "frozen file" in str(error):  # it had gone since the copy was made
        return "final" if seen.copied else None
    if isinstance(error, LogError):
        return "again" if "log fails" in seen.kinds else None
    if isinstance(error, StateAheadError):
        return "final" if seen.copied else None
    return None


def _repeated(driver: "Driver") -> bool:
    """Whether a commit failed for all of commitRetrySecs."""
    limit, since = driver.settings.commitRetrySecs, driver.failing_since
    return limit is not None and since is not None and driver.world.scheduler.now - since >= limit


def _poisoned(driver: "Driver") -> bool:
    """Whether the batch that failed most holds the tuple that always fails."""
    txid = max(driver.failures, key=lambda txid: driver.failures[txid])
    tries = [tuples for attempt, tuples in driver.world.attempts.items() if attempt.txid == txid]
    return any(seq == driver.world.setting.poison for tuples in tries for _, seq in tuples)


def _lost(world: "World") -> bool:
    """Whether a state really is gone: a file of its snapshot, or more of the server's writes than the log keeps."""
    if world.seen.files_lost or (world.seen.copied and "memory" in world.setting.homes.values()):
        return True  # an older copy of the log names files that later snapshots took in
    if not world.seen.lost_writes:
        return False
    group = world.disk.groups.get(world.setting.group)
    kept = 0 if group is None else group.kept
    for state, home in world.setting.homes.items():
        if home == "memory":
            continue
        markers = []
        for number in range(world.setting.groups):
            tag = f"sim/{state}/{number}" if world.setting.groups > 1 else f"sim/{state}"
            meta = world.server.data.get(b"p:{%b}:m" % tag.encode(), {})
            markers.append(int(meta.get(b"marker", b"-1")))
        if min(markers) < max(kept, 0):
            return True
    return False
