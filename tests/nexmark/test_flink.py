"""Flink SQL beside in Nexmark: its texts, its column in the table, its changes; and its rows, if it is in the cache."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from benchmarks.check import WrongAnswerError
from benchmarks.nexmark.checking import check_flink
from benchmarks.nexmark.events import Events, make_events
from benchmarks.nexmark.flink import Flink, fetched, left
from benchmarks.nexmark.flink_queries import COMPARED, ORDERED, QUERIES, SOURCE, UPDATED
from benchmarks.nexmark.oracle import ANSWERS, Oracle
from benchmarks.nexmark.structured import APPENDED
from benchmarks.nexmark.timed import Times, table

REPORT = {
    "date": "2026-03-28",
    "machine": {"cores": 2, "cpu": "a processor"},
    "versions": {"java": "17"},
    "flink": {"clock": 1.25, "processor": 2.0},
}


def test_each_query_but_q6_has_a_text_and_updates_the_rows_that_the_other_peer_updates() -> None:
    assert set(QUERIES) == set(ANSWERS) - {"q6"}
    assert set(QUERIES) - UPDATED == set(APPENDED)


def test_queries_with_windows_of_event_time_read_files_in_order() -> None:
    windows = {
        query for query, text in QUERIES.items() if any(word in text for word in ("(HOP(", "(TUMBLE(", "SESSION("))
    }
    assert windows - {"q12"} == ORDERED


def test_a_table_has_the_fields_of_the_events_and_their_lateness() -> None:
    assert "`bidder` BIGINT, `price` BIGINT, `channel` STRING" in SOURCE["bids"]
    assert "WATERMARK FOR `dateTime` AS `dateTime` - INTERVAL '1' second" in SOURCE["bids"]


def test_the_table_has_columns_for_flink_and_says_how_long_a_job_starts() -> None:
    both = Times("q0", 10_000, {"spark": 1.0, "Flink": 2.0}, {"spark": 2.0, "Flink": 5.0})
    ours = Times("q6", 10_000, {"spark": 1.0}, {"spark": 2.0})
    lines = table([both, ours], REPORT).splitlines()
    assert lines[-4] == "| query | spark, clock | Flink, clock | spark, processor | Flink, processor | spark / Flink |"
    assert lines[-2:] == ["| q0 | 10 | 5 | 5 | 2 | 2.5 |", "| q6 | 10 |  | 5 |  |  |"]
    assert any("takes 1.2 s by the clock, and 2.0 s of the processors" in line for line in lines)


def test_rows_are_left_that_no_change_has_retracted_in_whatever_file(tmp_path: Path) -> None:
    first, second = ({"id": 1, "bidTime": f"2026-03-28 23:58:0{second}.25"} for second in (1, 2))
    changes = [(None, first), (first, None), (None, second), (None, first), (None, second)]
    for number, (before, after) in enumerate(changes):
        change = {"before": before, "after": after, "op": "c" if after else "d"}
        (tmp_path / f"part-{number % 2}-{number}").write_text(json.dumps(change) + "\n")
    rows = sorted((row["id"], row["bidTime"].isoformat()[17:23]) for row in left(tmp_path).to_pylist())
    assert rows == [(1, "01.250"), (1, "02.250"), (1, "02.250")]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Events:
    return make_events(tmp_path_factory.mktemp("nexmark") / "events", 14_000, 7)


def test_a_stream_that_has_ended_has_the_results_of_all_windows(events: Events) -> None:
    none = pa.table({name: pa.nulls(0) for name in ("begin", "end", "bidder", "bids")})
    for ended, sessions in ((False, 624), (True, 787)):
        with pytest.raises(WrongAnswerError, match=f"{sessions} rows are missing, 0 are wrong"):
            Oracle(events, ended).check("q11", "no engine", none, ours=False)


@pytest.fixture(scope="module")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flink]:
    if not fetched():
        pytest.skip("Flink's jars are not in the cache: python -m benchmarks.nexmark --flink fetches them")
    with Flink(tmp_path_factory.mktemp("flink") / "gateway") as started:
        yield started


@pytest.mark.soak
@pytest.mark.parametrize("query", sorted(COMPARED))
def test_flink_gives_the_rows_of_duckdb(events: Events, tmp_path: Path, query: str, flink: Flink) -> None:
    (checked,) = check_flink(events, tmp_path, [query], flink)
    assert checked.rows > 0
