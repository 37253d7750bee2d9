"""Errors of Spark's own setup become one sentence, with the way out."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.spark import CONNECT
from trident import Average, Count, Sum, TridentTopology, expr
from trident.base.errors import BatchFailedError, SparkFailedError, TopologyError, UserFunctionError
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState

ROOT = Path(__file__).parents[2]


def counted(function: Callable[[str], Any]) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a", "b"]]))
    mapped = words.map("word", function, "word string").groupBy("word")
    mapped.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


@pytest.mark.connect
@pytest.mark.spark
def test_a_worker_that_died(spark: SparkSession) -> None:
    with pytest.raises(BatchFailedError) as failed, counted(lambda _: os._exit(3)).start(spark, maxAttempts=1) as run:
        run.processAllAvailable()
    assert isinstance(failed.value.__cause__, SparkFailedError)
    assert "a Python worker of Spark died: it ran out of memory" in str(failed.value)
    assert "\tat " not in str(failed.value)


@pytest.mark.connect
@pytest.mark.spark
@pytest.mark.parametrize("verb", ["expression", "several", "transform"])
def test_a_null_of_sparks_own_step_in_a_field_that_is_not_null_fails_the_batch(spark: SparkSession, verb: str) -> None:
    """Spark trusts the declaration: a sum over such nulls was 0."""
    topology = TridentTopology()
    numbers = topology.newStream("its", FixedBatchSpout("n long", [[5, None]]))
    made = {
        "expression": lambda: numbers.map("n", expr("n"), "m long NOT NULL"),
        "several": lambda: numbers.map("n", expr("named_struct('a', n, 'b', n)"), "m long NOT NULL, b long"),
        "transform": lambda: numbers.transform(lambda df: df.withColumnRenamed("n", "m"), "m long NOT NULL"),
    }[verb]()
    made.persistentAggregate(MemoryMapState.opaque(), "m", Sum(), "sum", name="sum")
    said = r"its/1:\S+: a null for field 'm', which is NOT NULL"
    with pytest.raises(BatchFailedError, match=said), topology.start(spark, maxAttempts=1) as running:
        running.processAllAvailable()


OTHER_PYTHON = """
from pyspark.sql import SparkSession
from tests.compiler.test_spark_errors import counted
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
for _ in range(2):  # with workers that lack what they need, then without a session
    try:
        with counted(str.upper).start(spark, maxAttempts=1) as running:
            running.processAllAvailable()
    except Exception as error:
        print(error)
    spark.stop()
"""


@pytest.mark.connect
@pytest.mark.spark
def test_workers_that_run_another_python_and_a_session_that_was_stopped(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')  # without what is installed
    python.chmod(0o755)
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "PYTHONPATH": ""}
    ended = subprocess.run(
        [sys.executable, "-c", OTHER_PYTHON], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120
    )
    other, stopped = ended.stdout.splitlines()
    lacking = "Spark's Python workers have no module '(pyarrow|trident)': they run another Python; set PYSPARK_PYTHON"
    assert re.search(lacking, other), other
    assert stopped == "the SparkSession has been stopped; give a running one, or none"


def end_of(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a program with a Spark session that it starts, and return its output."""
    command = [sys.executable, "-W", "ignore", "-c", program, *arguments]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300)


def distinct(spout: FeederBatchSpout) -> TridentTopology:
    """Return a topology that needs Spark."""
    topology = TridentTopology()
    words = topology.newStream("words", spout).transform(lambda frame: frame.dropDuplicates())
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


STOPPED = """
import sys
from pathlib import Path
from tests.compiler.test_spark_errors import distinct
from tests.support.spark import small_spark
from trident.spouts import FeederBatchSpout
for batches in (1, 0):  # after the first batch, or before a slot has its session
    spark, spout = small_spark(Path(sys.argv[1]), "local[1]"), FeederBatchSpout("word string")
    try:
        with distinct(spout).start(spark) as running:
            for _ in range(batches):
                spout.feed(["a"])
                running.processAllAvailable(timeout=240)
            spark.stop()
            spout.feed(["b"])
            running.processAllAvailable(timeout=240)
    except Exception as error:
        print(error)
"""


@pytest.mark.spark
@pytest.mark.connect
def test_a_session_that_is_stopped_while_a_topology_runs_ends_the_run_at_once(tmp_path: Path) -> None:
    ended = end_of(STOPPED, str(tmp_path))
    said = (
        r"batch {} failed and would fail again: the Spark session was stopped \(spark.stop\(\)\) while the topology was"
    )
    after, before = ended.stdout.splitlines()
    assert re.match(said.format(2), after) and re.match(said.format(1), before), ended.stdout


def test_what_is_no_session() -> None:
    with pytest.raises(TopologyError, match="start takes a SparkSession, not 'local'; without one it uses the active"):
        counted(str.upper).start("local")  # type: ignore[arg-type]


def parsed(policy: Any) -> TridentTopology:
    topology = TridentTopology()
    lines = topology.newStream("lines", FixedBatchSpout("line string", [["1", "bad", "3"]]))
    numbers = lines.each("line", number, "n long", onError=policy)
    numbers.groupBy("n").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def number(line: str) -> int:
    return int(line)


BAD_TUPLES = """
import sys
from pyspark.sql import SparkSession
from tests.compiler.test_spark_errors import parsed
build = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
spark = build.config("spark.ui.showConsoleProgress", "false").getOrCreate()
for policy in ("skip", "fail"):
    print("begins", file=sys.stderr, flush=True)
    with parsed(policy).start(spark, name=policy, maxAttempts=2) as running:
        running.processAllAvailable()
"""


@pytest.mark.spark
@pytest.mark.soak
@pytest.mark.skipif(CONNECT, reason="the server logs the failures of its tasks")
def test_a_handled_failure_prints_nothing_and_a_reported_one_its_good_line_first_and_last(tmp_path: Path) -> None:
    ended = end_of(BAD_TUPLES)
    _, handled, reported = ended.stderr.split("begins\n")
    assert handled.strip() == "", handled
    first, *_, last = reported.strip().splitlines()
    where = r"lines/1:each\(number\): number \(test_spark_errors\.py:\d+\)"
    good = where + r" raised ValueError: .*'bad'; the tuple was \(line='bad'\)"
    assert re.search(good, first), first
    assert re.search(f"BatchFailedError: .*{good}$", last), last
    assert "\tat " not in reported


@pytest.mark.connect
@pytest.mark.spark
def test_an_overflow_is_told_with_its_place_and_without_advice_that_cannot_be_followed(spark: SparkSession) -> None:
    numbers = TridentTopology().newStream("numbers", FixedBatchSpout("n long", [[2**63 - 1, 1]]))
    with pytest.raises(UserFunctionError) as raised:
        numbers.each(expr("n + 1"), "m long").take(1)
    assert re.fullmatch(
        r"numbers/1:each\(expr\): expr\('n \+ 1'\) \(test_spark_errors.py:\d+\) failed in Spark: overflow. "
        r"Use 'try_add' to tolerate overflow and return NULL instead. \[ARITHMETIC_OVERFLOW\]",
        str(raised.value),
    )
    with pytest.raises(
        UserFunctionError, match="^numbers/3:aggregate.Sum.: the sum of 'm' does not fit bigint; convert its in"
    ):
        numbers.each(expr("n"), "m long").aggregate("m", Sum(), "total").take(1)
    both = numbers.each(expr("n"), "m long").chainedAgg().aggregate("m", Sum(), "a").aggregate("n", Average(), "b")
    with pytest.raises(UserFunctionError) as raised:
        both.chainEnd().take(1)
    assert str(raised.value).startswith("one of these expressions failed: numbers/")
    assert "the sum of 'm' does not fit bigint" in str(raised.value) and "the sum of 'n'" in str(raised.value)
