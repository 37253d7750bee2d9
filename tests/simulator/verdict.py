"""Which typed stop of a program that stays what it is, is the right answer after which faults. Whatever is not named
here is wrong."""

from typing import TYPE_CHECKING, Literal

from tests.simulator.bucket import FAULT
from trident.base import errors

if TYPE_CHECKING:
    from tests.simulator.driver import Driver
    from tests.simulator.world import World

Verdict = Literal["again", "final"] | None
"""None if a driver was wrong to stop, "again" if the next start goes on, "final" if only a human can."""

_STORE = {"server killed", "server rewound", "one hash tag rewound", "server emptied", "network", FAULT}
OF_STAGES = (errors.UserFunctionError, errors.BatchTimeoutError, errors.SparkFailedError)
"""Errors after which a stage, a commit or a heal is tried as often as a batch has attempts."""
_PASSING = (errors.StateUnavailableError, errors.StateFullError, errors.StateBehindError, errors.StateRecoveringError)


def why_right(world: "World", driver: "Driver", error: BaseException) -> Verdict:
    """Return whether a driver was right to stop with this error."""
    kinds = {FAULT if kind.startswith(FAULT) else kind for kind in world.result.faults}
    if isinstance(error, errors.FencedError):  # a later driver has the log; after an older copy: epochs are given twice
        lease = driver.begun.lease if driver.begun is not None else None
        taken = world.history.forgot or lease is None or world.disk.epoch > lease.epoch
        return "again" if taken and len(world.drivers) > 1 else None
    if isinstance(error, errors.BatchFailedError) and "the driver died" in str(error):
        return "again" if len(world.drivers) > world.settings.maxAttempts else None
    if isinstance(error, errors.BatchFailedError):
        if max(driver.failures.values(), default=0) < world.settings.maxAttempts:
            return None
        return "final" if _poisoned(world, driver) else "again"
    if (
        isinstance(error, errors.SparkFailedError) and driver.run is None
    ):  # a start heals what is behind, by executors too
        return "again" if any(kind.startswith("task") for kind in kinds) else None
    if isinstance(error, OF_STAGES):  # a later stage, again and again, or the last to fail
        often = driver.stage_failures >= world.settings.maxAttempts or isinstance(error, errors.CallHangsError)
        return "again" if often or (kinds & _STORE and _repeated(driver)) else None
    if isinstance(error, errors.StateLostError):
        return "final" if _lost(world) else None
    if isinstance(error, _PASSING):  # while starting, or after commitRetrySecs
        return "again" if kinds & _STORE else None
    if isinstance(error, errors.LogCorruptError) and "frozen file" in str(error):  # it had gone since the copy was made
        return "final" if world.history.forgot else None
    if isinstance(error, errors.LogError):
        return "again" if "log fails" in kinds else None
    if isinstance(error, errors.StateAheadError):
        return "final" if world.history.forgot else None
    return None


def _repeated(driver: "Driver") -> bool:
    """Whether a commit failed for all of commitRetrySecs."""
    limit, since = driver.world.settings.commitRetrySecs, driver.failing_since
    return limit is not None and since is not None and driver.world.scheduler.now - since >= limit


def _poisoned(world: "World", driver: "Driver") -> bool:
    """Whether the batch that failed most holds the tuple that always fails."""
    most = max(driver.failures, key=lambda batch: driver.failures[batch])
    return any(world.poisons(given) for (group, at), given in driver.given.items() if (group, at.txid) == most)


def _lost(world: "World") -> bool:
    """Whether a state really is gone: a file of its snapshot, or more of the server's writes than the log keeps."""
    homes = world.setting.homes
    if world.files_lost or (world.history.forgot and "memory" in homes.values()):
        return True  # an older copy of the log names files that later snapshots took in
    if not world.lost_writes:
        return False
    kept = max((group.kept for group in world.disk.groups.values()), default=0)
    for state in [state for state, home in homes.items() if home == "redis"]:
        metas = [world.server.data.get(b"p:{%b}:m" % tag, {}) for tag in world.setting.tags(state)]
        if min(int(meta.get(b"marker", b"-1")) for meta in metas) < max(kept, 0):
            return True
        if state not in world.disk.states:
            continue
        held, birth = world.disk.states[state], world.disk.states[state].birth
        in_log = kept <= birth.txid and (not birth.filled or held.content is not None)
        if not in_log and min(int(meta.get(b"epoch", b"0")) for meta in metas) < birth.epoch:
            return True  # what is left is of a creation that was interrupted before
    return False
