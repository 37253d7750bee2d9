"""The benchmark accepts right answers only, and its report names machine, versions and every row."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.check import WrongAnswerError, check_counts
from benchmarks.competitors.raw_set import raw_set
from benchmarks.report import write_report
from benchmarks.row import Row
from benchmarks.workload import make_workload, small_tables
from tests.support.server import RedisServer

ROOT = Path(__file__).parents[2]


def test_a_wrong_count_is_no_result() -> None:
    check_counts("engine", {"cow": 1}, {"cow": 1})
    with pytest.raises(WrongAnswerError, match=r"engine: 2 of 2 counts differ \(cow: 2 for 1, moon: None for 3\)"):
        check_counts("engine", {"cow": 2}, {"cow": 1, "moon": 3})


def test_the_workload_is_the_same_each_time_and_its_counts_are_those_of_its_files(tmp_path: Path) -> None:
    load = make_workload(tmp_path / "one", files=2, lines_per_file=300)
    again = make_workload(tmp_path / "two", files=2, lines_per_file=300)
    assert [a.read_bytes() for a in load.files] == [b.read_bytes() for b in again.files]
    lines = [line for table in small_tables(load, 3, 100) for line in table["line"].to_pylist()]
    assert len(lines) == 300 and {len(line.split(" ")) for line in lines} == {10}
    assert sum(load.expected.values()) == load.words == 6_000


def test_raw_set_sets_every_key_it_counts(redis_server: RedisServer) -> None:
    raw_set(redis_server.port, commands=2_500, keyspace=100)
    assert redis_server.client.dbsize() == 100
    assert redis_server.client.info("commandstats")["cmdstat_set"]["calls"] == 2_500


@pytest.mark.parametrize(
    ("row", "ratio", "ok"),
    [
        (Row("a", "faster", 90.0, 100.0, "words/s", 0.9), 0.9, True),
        (Row("a", "slower", 89.0, 100.0, "words/s", 0.9), 0.89, False),
        (Row("a", "longer", 14.0, 10.0, "ms", 1.3, "at most"), 1.4, False),
        (Row("a", "no other", 1.5, None, "ms", 2.0, "at most"), None, True),
        (Row("a", "no target", 1.5, None, "ms", None), None, None),
    ],
    ids=lambda value: value.what if isinstance(value, Row) else "",
)
def test_a_row_bounds_the_ratio_where_there_is_another_and_else_the_figure(
    row: Row, ratio: float | None, ok: bool | None
) -> None:
    assert (row.ratio, row.ok) == (ratio, ok)


def test_the_report_names_machine_and_versions_and_every_row(tmp_path: Path) -> None:
    write_report([Row("a", "ours against theirs", 90.0, 100.0, "words/s", 0.9)], {"rounds": 5}, tmp_path)
    report = json.loads((tmp_path / "latest.json").read_text())
    assert {"machine", "versions", "date", "rows", "rounds"} <= set(report)
    assert set(report["rows"][0]) >= {"id", "what", "ours", "other", "unit", "ratio", "target", "ok"}
    assert (
        "| ours against theirs | 90 | 100 | words/s | 0.90 | at least 0.9 | met |"
        in (tmp_path / "latest.md").read_text()
    )


@pytest.mark.spark
@pytest.mark.soak
def test_every_family_of_rows_runs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "benchmarks", "--quick", "--out", str(tmp_path)]
    environment = {**os.environ, "SPARK_API_MODE": "classic"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr[-3000:]
    families = {row["id"].split(".")[0] for row in json.loads((tmp_path / "latest.json").read_text())["rows"]}
    assert families >= {"words", "small", "embedded", "redis", "drpc", "memory", "join", "split"}
