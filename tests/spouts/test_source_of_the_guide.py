"""The source that the guide shows is what it says: at most 60 lines, exact, and read by Spark's workers."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.pages import blocks_of
from trident import Count, TridentTopology
from trident.state import MemoryMapState

PAGE = Path(__file__).parents[2] / "docs" / "guide" / "sources.md"
SOURCE, USE, CONTRACT = blocks_of(PAGE)


def shown(*blocks: str) -> dict[str, Any]:
    names: dict[str, Any] = {"__name__": "guide"}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    return names


TestTableSpout = shown(SOURCE, CONTRACT)["TestTableSpout"]


def test_it_has_at_most_sixty_lines() -> None:
    assert len([line for line in SOURCE.splitlines() if line.strip()]) <= 60


def test_the_page_runs_as_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shown(SOURCE, USE)


@pytest.mark.spark
def test_sparks_workers_read_it(spark: SparkSession, tmp_path: Path) -> None:
    names = shown(SOURCE, CONTRACT)
    with closing(sqlite3.connect(tmp_path / "events.db")) as table, table:
        table.execute("create table events (id integer primary key, word text)")
        table.executemany("insert into events values (?, ?)", [(n, f"word {n % 3}") for n in range(1, 30_001)])
    spout = names["TableSpout"](str(tmp_path / "events.db"), maxRows=25_000)
    names["TestTableSpout"]().test_workers_read_what_the_driver_reads(lambda: spout, spark, tmp_path)
    topology = TridentTopology()
    events = topology.newStream("events", spout).groupBy("word")
    events.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with topology.start(spark, name="guide", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        assert dict(running.state("counts").items()) == {f"word {n}": 10_000 for n in range(3)}
