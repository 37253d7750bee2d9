"""SIGKILL of the driver at every point of a commit over three stateful operations in series and two stores.

All of a batch or nothing of it is in every state, and in what an operation keeps in memory, at one txid.
"""

from pathlib import Path

import pytest

from tests.faults import stateful
from tests.faults.drive import Case
from tests.faults.driver_forks import End, Zygote
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident.base.crash_points import POINTS

TOTAL = 48
ONCE_A_RUN = {point for point in POINTS if point.startswith(("start.", "snapshot."))}
MET = [point for point in POINTS if not point.startswith("trim.")]
"""Those that so few batches reach; test_kill_points.py has the trim."""
NORMAL = [
    *("freeze.after:3", "commit.stage.before:4", "commit.stage.frozen:5"),
    *("commit.state.after:5", "commit.states.after:3", "committed.before:2"),
]
OTHERS = [f"{point}:{1 if point in ONCE_A_RUN else 3}" for point in MET]


def exact(end: End) -> None:
    """Every tuple counted once by each operation."""
    assert end.error is None, end.trace
    assert end.result == stateful.expected(TOTAL)


@pytest.mark.parametrize("point", some_of(dict.fromkeys([*NORMAL, *OTHERS]), NORMAL))
def test_a_batch_is_in_all_operations_or_in_none_whatever_kills_the_driver_in_it(
    point: str, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    case = Case("opaque", str(tmp_path), shared_redis.url, TOTAL, stateful=True)
    zygote.kill_twice(case, point)
    exact(zygote.run(case))
