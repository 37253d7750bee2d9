"""A bid that waits in a join takes few bytes of the driver."""

from pathlib import Path

from benchmarks.nexmark.waiting import MOST, live_bytes


def test_a_waiting_bid_takes_few_bytes(tmp_path: Path) -> None:
    assert 150 < live_bytes(tmp_path, 8_000, 4) <= MOST
