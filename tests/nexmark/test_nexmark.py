"""The queries of Nexmark give DuckDB's rows on both engines, also after a driver that was killed."""

import inspect
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from benchmarks.check import WrongAnswerError
from benchmarks.nexmark import queries
from benchmarks.nexmark.checking import check, check_killed
from benchmarks.nexmark.events import Events, make_events
from benchmarks.nexmark.oracle import ANSWERS, Oracle
from benchmarks.nexmark.program import run
from benchmarks.nexmark.topics import send
from tests.house.sources import ROOT
from tests.support.kafka import KafkaBroker


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    """Across midnight, in seven batches."""
    return make_events(tmp_path_factory.mktemp("nexmark") / "events", 14_000, 7)


@pytest.mark.parametrize("query", ANSWERS)
def test_a_query_gives_the_rows_of_duckdb(events: Events, tmp_path: Path, query: str) -> None:
    (checked,) = check(events, tmp_path, [query], "embedded")
    assert checked.rows > 0


@pytest.mark.spark
@pytest.mark.parametrize("query", ["q4", "q5", "q14"])
def test_spark_gives_the_rows_of_duckdb(events: Events, tmp_path: Path, query: str, spark: SparkSession) -> None:
    (checked,) = check(events, tmp_path, [query], "spark", spark)
    assert checked.rows > 0


@pytest.fixture(scope="session")  # a worker may come to this module twice, and the topics are there then
def sent(tmp_path_factory: pytest.TempPathFactory, kafka: KafkaBroker) -> Events:
    """Send the same events, from a separate folder: the address of the broker is saved with them."""
    return send(make_events(tmp_path_factory.mktemp("sent") / "events", 14_000, 7), kafka)


@pytest.mark.parametrize("query", ["q4", "q18"])
def test_messages_of_kafka_give_the_rows_of_duckdb(sent: Events, tmp_path: Path, query: str) -> None:
    (checked,) = check(sent, tmp_path, [query], "embedded")
    (killed,) = check_killed(sent, tmp_path, [query], "embedded")
    assert checked.rows == killed.rows > 0


@pytest.mark.parametrize("query", ["q5", "q6", "q10"])
def test_a_killed_query_gives_the_rows_of_duckdb(events: Events, tmp_path: Path, query: str) -> None:
    (checked,) = check_killed(events, tmp_path, [query], "embedded")
    assert checked.rows > 0 and checked.killed


def test_a_row_that_is_missing_wrong_or_there_twice_is_found(events: Events, tmp_path: Path) -> None:
    right, oracle = run(events, "q2", "embedded", tmp_path), Oracle(events)
    for wrong in (right.slice(1), pa.concat_tables([right, right.slice(0, 1)])):
        with pytest.raises(WrongAnswerError, match="q2, engine: [01] rows are missing, [01] are wrong"):
            oracle.check("q2", "engine", wrong)
    assert oracle.check("q2", "engine", right) == right.num_rows


def test_the_events_are_the_same_each_time_and_divided_as_published(events: Events, tmp_path: Path) -> None:
    again = make_events(tmp_path / "events", 14_000, 7)
    sizes = {}
    for table in ("persons", "auctions", "bids"):
        both = [[file.read_bytes() for file in sorted(Path(made.folder, table).iterdir())] for made in (events, again)]
        assert both[0] == both[1] and len(both[0]) == 7
        sizes[table] = ds.dataset(Path(events.folder, table)).count_rows()
    assert sizes == {"persons": 280, "auctions": 840, "bids": 12_880}


def test_each_query_is_a_row_of_the_page_with_its_number_of_lines() -> None:
    page = (ROOT / "docs/nexmark.md").read_text(encoding="utf-8")
    rows = {cells[1].strip(): cells for line in page.splitlines() if len(cells := line.split("|")) == 7}
    shown = {query: int(rows[query][4]) for query in ANSWERS}
    assert shown == {query: _lines(query) for query in ANSWERS}


def _lines(query: str) -> int:
    """Return the lines of a query's function without its head and its docstring, which is one line."""
    return len(inspect.getsource(getattr(queries, query)).splitlines()) - 2
