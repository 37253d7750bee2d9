"""With the transaction log in Redis: SIGKILL of the driver at every point where the log was or will be written, and
once more while it recovers; the next driver takes over from another folder, as on another machine. Then every count."""

import signal
from pathlib import Path

import pytest

from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from tests.faults.test_kill_points import LONG, TOTAL, exact
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident.base.crash_points import POINTS

AT = [p for p in POINTS if p.startswith(("start.", "plan.", "freeze.", "commit", "success.", "trim."))]
ONCE_A_RUN = ("start.", "trim.")
LOGGED = [
    p for p in AT if p.startswith(("start.log", "start.enrolled", "freeze.", "commit.stage", "committed.", "trim."))
]
"""The points around a write of the log. At the others it does not matter where the log is."""


@pytest.mark.parametrize("point", some_of(AT, LOGGED))
def test_a_driver_killed_at_this_point_is_followed_by_one_on_another_machine(
    point: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    url, total = shared_redis.url, LONG if point.startswith("trim.") else TOTAL

    def driver(machine: str, crash: str = "") -> End:
        return zygote.run(Case("opaque", str(tmp_path / machine), url, total, log=url), crash)

    first = 1 if point.startswith(ONCE_A_RUN) else 17
    assert driver("one", f"{point}:{first}").signal == signal.SIGKILL
    again = driver("two", f"{point}:1")
    assert again.signal in (signal.SIGKILL, None), again.error
    exact(driver("three"), total)


def test_states_in_memory_go_on_from_their_snapshots_with_the_log_in_redis(
    zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    case = Case("opaque", str(tmp_path), None, LONG, log=shared_redis.url)
    for crash in ("commit.state.after:30", "freeze.after:20", "snapshot.published:1"):
        assert zygote.run(case, crash).signal == signal.SIGKILL
    exact(zygote.run(case), LONG)
