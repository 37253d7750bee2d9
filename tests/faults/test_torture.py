"""Tortures on real Spark: a short one, and longer ones with servers that forget more, like `make torture`."""

from collections import Counter
from math import inf
from pathlib import Path
from typing import get_args

import pytest

from tests.faults.torture import FIRST, Round, Toll, differences, torture
from tests.faults.torture_sources import kafka_out_of_reach
from tests.support.server import Aof
from tests.support.soak import Soak


@pytest.mark.spark
@pytest.mark.soak
def test_a_minute_of_kills_loses_and_doubles_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Server, Python worker and driver are killed at least once each, whatever the machine takes for it."""
    toll = Toll()
    Round(tmp_path, "everysec", 12.0, toll, seed=3).go()
    with capfd.disabled():
        print(f"\n{toll}", end=" ", flush=True)
    assert toll.errors == []
    assert toll.stops or toll.kills >= Counter(FIRST)
    assert toll.stops or (toll.records > 0 and toll.reads > 0)


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.parametrize("source", ["kafka", "redisStreams"])
def test_a_short_torture_of_a_source_with_a_server(source: str, tmp_path: Path) -> None:
    if source == "kafka" and (reason := kafka_out_of_reach()):
        pytest.skip(reason)
    toll = Toll()
    Round(tmp_path, "always", 12.0, toll, seed=1, source=source).go()
    assert toll.errors == []
    assert toll.kills >= Counter([*FIRST, "source"]) and toll.records > 0


@pytest.mark.spark
@pytest.mark.soak(weight=3)
def test_longer_tortures_lose_and_double_nothing(soak: Soak) -> None:
    toll = torture(10.0 if soak.seconds == inf else soak.seconds / 60, get_args(Aof), soak.seed)
    soak.tell(str(toll))
    assert toll.errors == []


def test_a_lost_a_doubled_and_an_exchanged_record_are_seen() -> None:
    one = 1 << 40
    assert list(differences({"a": one + 5, "b": one}, {"a": one + 5, "b": one})) == []
    found = differences(
        {"a": 2 * one + 5, "b": one, "c": one + 7}, {"a": one + 5, "b": 2 * one, "c": one + 8, "d": one}
    )
    assert [(kind, what.partition(":")[0]) for kind, what in found] == [
        ("lost", "'a'"),
        ("doubled", "'b'"),
        ("other records", "'c'"),
        ("doubled", "'d'"),
    ]
