"""The log's disk: an fsync that fails, a write that is torn, a tail that is gone, a close that goes wrong."""

import math
import os
import shutil
import signal
from pathlib import Path

import pytest

from tests.faults import disk, smallest_topology
from tests.faults.driver_forks import Zygote
from tests.faults.smallest_topology import Small, expected
from tests.faults.steps import Fault, Steps
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident.base.errors import LogError, StateAheadError, StateLostError
from trident.run.start import LOG_FILE

FREEZE = "log: commit of DELETE FROM attempts"
FRAME = 24 + 4096


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_an_fsync_that_fails_ends_the_run_and_is_not_tried_again(kind: str, tmp_path: Path) -> None:
    """After a failed fsync nobody knows what is on the disk: only a new start, which reads it, can tell."""
    given = Small(kind, "one", "memory", str(tmp_path))
    steps = Steps(Fault(FREEZE, 2, "applied", "exception"))
    with disk.watched(steps), pytest.raises(LogError, match=r"log\.sqlite cannot be used: disk I/O error"):
        smallest_topology.run(given)
    assert steps.fired and steps.met[FREEZE] == 2
    assert smallest_topology.run(given) == expected("one")


@pytest.mark.parametrize("part", [1, 2])
def test_a_disk_that_fills_up_in_the_middle_of_a_commit_leaves_nothing_of_it(part: int, tmp_path: Path) -> None:
    given = Small("opaque", "one", "memory", str(tmp_path))
    steps = Steps(Fault(FREEZE, 2, "half", "exception", part))
    with disk.watched(steps), pytest.raises(LogError, match=r"log\.sqlite cannot be used: (database or )?disk"):
        smallest_topology.run(given)
    assert steps.fired
    assert smallest_topology.run(given) == expected("one")


def test_a_close_that_fails_is_told_and_takes_nothing_with_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = Small("opaque", "two", "memory", str(tmp_path))
    with disk.watched(Steps(Fault("log: close", 1, "before", "exception"))):
        assert smallest_topology.run(given) == expected("two")
    assert (
        "'small' stopped, but not all of its resources could be closed" in caplog.text
        and "disk I/O error" in caplog.text
    )
    assert smallest_topology.run(given) == expected("two")


# --- a power loss that takes the end of the log ------------------------------------------------------------------


def killed(zygote: Zygote, given: Small, crash: str) -> Path:
    """What a driver leaves that is killed at this point: its folder, with a WAL that nobody has taken in."""
    zygote.begin(given, crash=crash)
    assert zygote.end().signal == signal.SIGKILL
    return Path(given.checkpoint)


def cut_tail(folder: Path, frames: float) -> None:
    """Take so many pages from the end of the WAL, as a disk may that had not written them."""
    wal = folder / smallest_topology.NAME / f"{LOG_FILE}-wal"
    os.truncate(wal, max(0, wal.stat().st_size - math.ceil(frames * FRAME)))


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("bytes_", some_of([1, 400, 2000, FRAME - 1, FRAME], [1, FRAME - 1, FRAME]))
def test_a_last_commit_that_is_torn_never_was(bytes_: int, kind: str, zygote: Zygote, tmp_path: Path) -> None:
    """All that a disk may lose is what no fsync has confirmed, which is the end of the last commit."""
    given = Small(kind, "two", "memory", str(tmp_path))
    cut_tail(killed(zygote, given, "committed.after:3"), bytes_ / FRAME)
    assert smallest_topology.run(given) == expected("two")


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_a_log_behind_its_snapshots_is_exact_or_refused_wherever_it_is_cut(
    kind: str, zygote: Zygote, tmp_path: Path
) -> None:
    """A disk that loses what it has confirmed takes the log back to snapshots that are replaced since."""
    left = killed(zygote, Small(kind, "two", "memory", str(tmp_path / "left")), "committed.before:3")
    ends = []
    for frames in [0, *(whole + 0.5 for whole in range(30))]:
        given = Small(kind, "two", "memory", str(tmp_path / str(frames)))
        shutil.copytree(left, given.checkpoint)
        cut_tail(Path(given.checkpoint), frames)
        ends.append(outcome(given))
    assert ends[0] == "exact", ends


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
def test_a_log_behind_its_server_is_exact_or_refused_wherever_it_is_cut(
    kind: str, zygote: Zygote, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """A frozen batch is on the disk before a store hears of it; a disk that loses it all the same is not believed."""
    given = Small(kind, "one", "redis", str(tmp_path / "left"), shared_redis.url)
    left = killed(zygote, given, "committed.before:3")
    copy = {key: shared_redis.client.dump(key) or b"" for key in shared_redis.client.scan_iter()}
    ends = []
    for frames in [0, *(whole + 0.5 for whole in range(30))]:
        shared_redis.client.flushall()
        for key, content in copy.items():
            shared_redis.client.restore(key, 0, content)
        here = tmp_path / str(frames)
        shutil.copytree(left, here)
        cut_tail(here, frames)
        ends.append(outcome(Small(kind, "one", "redis", str(here), shared_redis.url)))
    assert ends[0] == "exact" and ends[-1] == "refused", ends
    assert ends == sorted(ends), "once the log is too old it stays too old"


def outcome(given: Small) -> str:
    """What a start says to what it finds: it counts to the exact end, or refuses and says why."""
    try:
        assert smallest_topology.run(given) == expected(given.shape)
    except (StateAheadError, StateLostError, LogError):
        return "refused"
    return "exact"
