"""SIGKILL of the driver at every point of the first batches after a change of the shapes of four states.

Whatever kills it, each value is migrated once. Until the first frozen batch of the present program the former one can
be started again; afterwards it is refused, and changes nothing.
"""

import signal
from pathlib import Path

import pytest

from tests.faults import evolving
from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident.base.crash_points import EVOLVE_POINTS, POINTS

MET = [point for point in POINTS if not point.startswith(("trim.", "start.state.born", "start.state.created"))]
SKIPPED = ("start.states.founded", "start.enrolled", "commit.stage.before", "commit.stage.frozen")
FIRST = [f"{point}:1" for point in MET if point not in SKIPPED]
OURS = [f"{p}:{n}" for p in EVOLVE_POINTS for n in (1, 2, 4) if (p, n) != ("heal.dropped", 4)]
"""A state in memory needs no drop: the log's record of its birth takes its snapshot away."""
UNDONE = {f"{point}:1" for point in MET[: MET.index("freeze.after")]}
"""Before the first batch of the present program is frozen."""
NORMAL = [
    *("freeze.before:1", "freeze.after:1", "evolve.recorded:1"),
    *("heal.created:2", "heal.applied:4", "committed.before:1"),
]


def ran(end: End, new: bool) -> None:
    assert end.error is None, end.trace
    assert end.result == evolving.expected(new)


@pytest.mark.parametrize("shift", [0, 1, 2, 3])
@pytest.mark.parametrize("point", some_of([*NORMAL, *(p for p in [*FIRST, *OURS] if p not in NORMAL)], NORMAL))
def test_every_value_is_migrated_once_whatever_kills_the_driver(
    point: str, shift: int, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    old = Case("opaque", str(tmp_path), shared_redis.url, evolving=f"old:{shift}")
    new = Case("opaque", str(tmp_path), shared_redis.url, evolving=f"new:{shift}")
    assert zygote.run(old, "committed.before:3").signal == signal.SIGKILL
    ran(zygote.run(old), new=False)
    zygote.kill_twice(new, point)
    between = zygote.run(old)  # the former program may go on, or it is refused: in both cases nothing is lost
    if between.error is None or point in UNDONE:
        ran(between, new=False)
    else:
        assert between.error.startswith(("StateShapeError", "CodeChangedError")), between.trace
    ran(zygote.run(new), new=True)
    refused = zygote.run(old)
    assert refused.error is not None and refused.error.startswith("StateShapeError")
    ran(zygote.run(new), new=True)
