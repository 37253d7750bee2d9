"""SIGKILL of one driver after the other at points drawn at random, over every topology that the other kills have."""

import random
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.faults import outputs, poison, source, updates, windows
from tests.faults.drive import Case
from tests.faults.driver_forks import Zygote
from tests.support.server import RedisServer
from tests.support.soak import Soak
from trident.base.crash_points import OUTPUT_POINTS, POINTS

TOTAL = 240
LATEST = 30
"""The last time at which a driver is killed at a point: there are about twenty batches, and two or three states."""


def counts(total: int) -> dict[str, dict[str, int]]:
    """What the word counts come to."""
    return dict(zip(("counts", "sums", "letters"), source.expected(total), strict=True))


EXPECTED: dict[str, Callable[[int], Any]] = {
    "counts": counts,
    "updates": updates.expected,
    "outputs": outputs.expected,
    "poison": poison.expected,
    "windows": windows.expected,
}


@pytest.mark.soak
def test_whatever_is_killed_wherever_it_is_everything_counts_once(
    soak: Soak, zygote: Zygote, shared_redis: RedisServer, tmp_path: Path
) -> None:
    for number, chance in enumerate(soak.draws(300)):
        shared_redis.client.flushall()
        topology, kind = chance.choice(list(EXPECTED)), chance.choice(("transactional", "opaque"))
        url = chance.choice((None, shared_redis.url))
        chosen = {} if topology == "counts" else {topology: True}
        case = Case(kind, str(tmp_path / str(number)), url, TOTAL, **chosen)  # type: ignore[arg-type]
        deaths = [_death(chance) for _ in range(chance.randint(1, 4))]
        drawn = f"draw {number}: {case}, killed at {', '.join(deaths)}"
        for death in deaths:
            end = zygote.run(case, death)
            assert end.signal in (signal.SIGKILL, None) and end.error is None, f"{drawn}: {end}"
        end = zygote.run(case)
        assert end.error is None, f"{drawn}: {end.trace}"
        assert end.result == EXPECTED[topology](TOTAL), drawn


def _death(chance: random.Random) -> str:
    return f"{chance.choice((*POINTS, *OUTPUT_POINTS))}:{chance.choice((1, chance.randint(1, LATEST)))}"
