"""Tables in whole topologies, on both engines: exact counts through restarts and a driver that dies."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from trident import Count, TridentTopology
from trident.errors import BatchFailedError, DataLossError
from trident.spouts import JdbcSpout
from trident.state import MemoryMapState
from trident.testing import EngineStart, crash_at, engines, run_through, start_local

start = engines(spark="spark", marks=[pytest.mark.spark])

pytestmark = pytest.mark.usefixtures("nothing_left_running")


def counting(spout: Any) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def made(postgres: PostgresServer, table: str, rows: int) -> None:
    postgres.run(f"create table {table} (id bigserial primary key, word text)")
    add(postgres, table, rows)


def add(postgres: PostgresServer, table: str, rows: int) -> None:
    postgres.run(f"insert into {table} (word) select 'word' || n % 3 from generate_series(1, {rows}) n")


@pytest.mark.parametrize("mode", ["incremental", "snapshot"])
def test_both_engines_count_every_row_once(
    start: EngineStart, postgres: PostgresServer, table: str, tmp_path: Path, mode: Any
) -> None:
    made(postgres, table, 300)
    spout = JdbcSpout(postgres.url, table, "id long, word string", orderBy="id", mode=mode, maxRowsPerBatch=70)
    with start(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        assert dict(running.state("counts")) == {"word0": 100, "word1": 100, "word2": 100}
    add(postgres, table, 3)
    with start(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        more = 1 if mode == "incremental" else 0
        assert dict(running.state("counts")) == {"word0": 100 + more, "word1": 100 + more, "word2": 100 + more}


@pytest.mark.parametrize("point", ["run.after", "freeze.after", "commit.before", "committed.after"])
def test_a_driver_that_dies_is_followed_by_one_that_goes_on(
    postgres: PostgresServer, table: str, tmp_path: Path, point: str
) -> None:
    made(postgres, table, 90)
    spout = JdbcSpout(postgres.url, table, "word string", orderBy="id", maxRowsPerBatch=30)
    with crash_at(point), run_through(counting(spout), checkpointLocation=tmp_path) as running:
        assert dict(running.state("counts")) == {"word0": 30, "word1": 30, "word2": 30}


def test_a_table_that_was_emptied_stops_the_stream(postgres: PostgresServer, table: str, tmp_path: Path) -> None:
    made(postgres, table, 3)
    spout = JdbcSpout(postgres.url, table, "word string", orderBy="id")
    with start_local(counting(spout), checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    postgres.run(f"truncate {table} restart identity")
    with (
        pytest.raises(BatchFailedError) as failed,
        start_local(counting(spout), checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)
    assert isinstance(failed.value.__cause__, DataLossError)
    assert f"table {table} is empty and was read up to 3" in str(failed.value)
