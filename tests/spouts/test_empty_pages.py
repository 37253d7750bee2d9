"""Positions that move over pages without rows: the rows behind them are read once, and an idle source rests."""

import itertools
from pathlib import Path
from typing import Any

import pytest

from trident import Count, FailedException, TridentTopology
from trident.spouts import PartitionedSpout, PollingSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.adapters import partitioned_executors

HOURS = [["a"], [], ["b"], *[[]] * 40, ["c", "a"], [], []]
"""Rows by the hour. The present hour is not over: its page is not asked for."""


class Asked:
    """Which positions were asked for."""

    def __init__(self) -> None:
        self.positions: list[Any] = []


class ByHour(PartitionedSpout):
    """Transactional: a batch is named by its hour."""

    outputFields = "word string"

    def __init__(self, asked: Asked, hours: list[list[str]]) -> None:
        self.asked, self.hours = asked, hours

    def getPartitions(self) -> list[str]:
        return ["shop"]

    def emitPartitionBatchNew(self, attempt: Any, partition: str, lastMetadata: Any) -> Any:
        self.asked.positions.append(lastMetadata)
        hour = 0 if lastMetadata is None else lastMetadata + 1
        return (self.hours[hour], hour) if hour < len(self.hours) else (None, None)

    def emitPartitionBatch(self, attempt: Any, partition: str, metadata: Any) -> Any:
        return self.hours[metadata]


def polling(asked: Asked, hours: list[list[str]]) -> PollingSpout:
    def fetch(position: Any, limit: int) -> Any:
        asked.positions.append(position)
        hour = position or 0
        return (hours[hour], hour + 1) if hour < len(hours) else ([], position)

    return PollingSpout("word string", {"shop": fetch})


SPOUTS = pytest.mark.parametrize("spout_of", [polling, ByHour])


def counting(spout: Any, function: Any = None) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("orders", spout)
    words = words.map("word", function, "word string") if function is not None else words
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def counts(running: Any) -> dict[str, int]:
    running.processAllAvailable(timeout=60)
    return {row["word"]: row["count"] for row in running.state("counts").toPandas().to_dict("records")}


@SPOUTS
def test_rows_behind_pages_without_rows_are_counted_once(spout_of: Any, tmp_path: Path) -> None:
    asked = Asked()
    with start_local(counting(spout_of(asked, HOURS)), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 2, "b": 1, "c": 1}
        asked.positions.clear()
        assert counts(running) == {"a": 2, "b": 1, "c": 1}
    assert len(set(asked.positions)) == 1, "an idle source is asked from where it stands, however it came there"


@SPOUTS
def test_nobody_takes_the_source_for_idle_between_two_pages(
    spout_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a plan ends between two pages there is an empty batch, so that the next one is planned at once."""
    monkeypatch.setattr(partitioned_executors, "_EMPTY_PAGES_SECS", 0)
    with start_local(counting(spout_of(Asked(), HOURS)), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 2, "b": 1, "c": 1}


@SPOUTS
def test_what_is_found_later_is_read_from_where_the_position_moved_to(spout_of: Any, tmp_path: Path) -> None:
    hours, asked = list(HOURS), Asked()
    with start_local(counting(spout_of(asked, hours)), name="t", checkpointLocation=str(tmp_path)) as running:
        counts(running)
        asked.positions.clear()
        hours.extend([[], ["d"]])
        assert counts(running) == {"a": 2, "b": 1, "c": 1, "d": 1}
    assert min(asked.positions) >= len(HOURS) - 1, "no page is asked for twice while the program runs"


@SPOUTS
def test_over_a_restart_every_row_counts_once(spout_of: Any, tmp_path: Path) -> None:
    hours = list(HOURS)
    for more, expected in [([], {}), ([["d"]], {"d": 1}), ([[], ["d"], []], {"d": 2})]:
        hours.extend(more)
        spout = spout_of(Asked(), hours)
        with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
            assert counts(running) == {"a": 2, "b": 1, "c": 1, **expected}


@SPOUTS
def test_a_batch_behind_empty_pages_is_replayed_from_its_own_rows(spout_of: Any, tmp_path: Path) -> None:
    failed: set[str] = set()

    def fails_once(word: str) -> str:
        if word not in failed:
            failed.add(word)
            raise FailedException(word)
        return word

    topology = counting(spout_of(Asked(), HOURS), fails_once)
    with start_local(topology, name="t", checkpointLocation=str(tmp_path), maxSpoutPending=3) as running:
        assert counts(running) == {"a": 2, "b": 1, "c": 1}
    assert failed == {"a", "b", "c"}


def test_a_position_that_follows_a_clock_makes_no_batch_and_comes_to_an_end(tmp_path: Path) -> None:
    clock, rows = itertools.count(1), {3: "a"}

    def fetch(position: Any, limit: int) -> Any:
        now = next(clock)
        return [rows[at] for at in sorted(rows) if (position or 0) < at <= now], now

    with start_local(
        counting(PollingSpout("word string", {"now": fetch})), name="t", checkpointLocation=str(tmp_path)
    ) as running:
        assert counts(running) == {"a": 1}
        rows[next(clock) + 100] = "b"
        while counts(running) == {"a": 1}:
            pass
        assert counts(running) == {"a": 1, "b": 1}
        assert running.lastProgress["txid"] == 2


def test_partitions_move_each_by_itself(tmp_path: Path) -> None:
    clock = itertools.count(1)

    def by_hour(position: Any, limit: int) -> Any:
        hour = position or 0
        return (HOURS[hour], hour + 1) if hour < len(HOURS) else ([], position)

    partitions = {"now": lambda position, limit: ([], next(clock)), "shop": by_hour, "list": ["d"]}
    spout = PollingSpout("word string", partitions)
    with start_local(counting(spout), name="t", checkpointLocation=str(tmp_path)) as running:
        assert counts(running) == {"a": 2, "b": 1, "c": 1, "d": 1}
