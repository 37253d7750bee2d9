"""SIGKILL of the driver at every point of a start that fills new states with the tuples before them, and after it.

Whatever kills it, each tuple is in each state once, also if the former program goes on in between.
"""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults import backfilling
from tests.faults.drive import Case
from tests.faults.driver_forks import Zygote
from tests.support.server import RedisServer
from tests.support.soak import some_of
from trident.base.crash_points import BACKFILL_POINTS, POINTS

OLD, LATER, NEW = 120, 160, 220
"""The records that the former program reads, that it reads if it goes on, and that the new program reads at the end."""

OF_STARTS = [point for point in POINTS if point.startswith("start.")]
FOUNDED = ("start.states.founded", "start.done", "heal.")
LATE = ("trim.before", "trim.after", "commit.stage.before", "commit.stage.frozen")
CASES = [
    *(f"{point}:1" for point in BACKFILL_POINTS),
    *(f"{point}:{n}" for point in OF_STARTS for n in (1, 2, 3)),
    *(f"{point}:{n}" for point in POINTS if point not in (*OF_STARTS, *LATE) for n in (1, 3)),
    *(f"heal.applied:{n}" for n in (1, 3)),
]
NORMAL = [
    *("backfill.caught.up:1", "backfill.former.committed:1", "start.backfilled:1", "start.log.taken:3"),
    *("freeze.after:3", "start.state.born:3", "heal.applied:3"),
]


def check(found: dict[str, dict[str, Any]] | None, case: Case) -> None:
    assert found is not None
    latest = found.pop("latest", None)
    assert found == backfilling.expected(case.backfilling, case.total)
    assert latest is None or latest.keys() == found["counts"].keys()


@pytest.mark.parametrize(
    ("kind", "shift"), [("opaque", 0), ("transactional", 1), ("transactional", 2), ("opaque", 3)], ids=str
)
@pytest.mark.parametrize("point", some_of(CASES, NORMAL))
def test_each_tuple_is_in_the_new_states_once_whatever_kills_the_driver(
    point: str, kind: str, shift: int, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    def case(program: str, most: int) -> Case:
        return Case(kind, str(tmp_path), shared_redis.url, NEW, backfilling=f"{program}:{shift}:{most}")

    old, new = case("old", OLD), case("new", NEW)
    assert zygote.run(old, "commit.before:4").signal == signal.SIGKILL  # with a batch that waits
    killed = zygote.run(new, point)
    assert killed.signal == signal.SIGKILL or killed.error is None, killed.trace
    between = zygote.run(case("old", LATER))  # the former program goes on, or is refused if the new one froze a batch
    if between.error is None:
        assert between.result is not None and between.result["counts"] == between.result["out"]
        if sum(between.result["counts"].values()) == LATER:  # otherwise the new program had read more
            check(between.result, case("old", LATER))
    else:
        assert between.error.startswith("CodeChangedError"), between.trace
    again = zygote.run(new, point)
    founded = killed.signal is None or point.startswith(FOUNDED)  # a start without that point ends well
    if founded and between.error is None and again.error is not None:
        assert "would lack the tuples read meanwhile" in again.error  # the former program read on without the states
        return
    assert again.signal == signal.SIGKILL or again.error is None, again.trace
    end = zygote.run(new)
    assert end.error is None, end.trace
    check(end.result, new)
