"""Behaviour of the Spark engine alone: sessions, cancelling, single evaluation, native operations, pickling."""

import datetime
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from tests.compiler.functions import CountedCalls, Longest, Tally, Waiter, an_hour_later, split
from tests.compiler.stage_runner import STATE, OnSpark, emission, results, rows, run, stream
from trident import Count, Debug, FilterNull, Max, Sum, TopK, TridentTopology, expr
from trident.base.attempt import TransactionAttempt
from trident.base.errors import (
    AttemptCancelledError,
    BatchFailedError,
    MalformedInputError,
    MissingSessionError,
    SourceUnreadableError,
    SpoutContractError,
    UserFunctionError,
)
from trident.base.spark_types import parse_schema
from trident.compiler.arrow.engine import ArrowEngine
from trident.compiler.program import Group
from trident.compiler.spark.aggregates import merged_by_key
from trident.compiler.spark.engine import SparkEngine
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.sessions import Profile, is_connect, released, run_session
from trident.compiler.spark.stage_inputs import stage_input
from trident.compiler.stage_layout import layout, stage_ends
from trident.compiler.stages import cut
from trident.frozen.results import StageResult
from trident_spouts.files.line_reader import LinesEmission, Stretch
from trident_spouts.files.parquet import FilesEmission
from trident_spouts.files.text import TextFormat

pytestmark = pytest.mark.spark
ATTEMPT = TransactionAttempt(1, 0)
LINES = ["the cow jumped", "the moon"]
SPLIT = expr("explode(split(line, ' '))")


def one_group(topology: TridentTopology) -> Group:
    (group,) = cut(topology).groups
    return group


# --- native operations --------------------------------------------------------------------------------------------


def cast_to_int(line: Column) -> Column:
    return line.cast("int")


def upper(word: Column) -> Column:
    return F.upper(word)


@pytest.mark.connect
def test_native_operations_are_columns(on_spark: OnSpark) -> None:
    topology = TridentTopology()
    words = stream(topology, "line string", [*LINES, None], []).each("line", SPLIT, "word string")
    (
        words.filter("word", expr("length(word) > 2"))
        .each("word", upper, "loud string")
        .each("loud", FilterNull())
        .each("word", expr("posexplode(split(word, ''))"), "place int, letter string")
        .each("place", expr("named_struct('a', place + 1, 'b', 'x')"), "next long, x string")
        .map(expr("concat(loud, letter)"), "both string")
        .groupBy("both")
        .persistentAggregate(STATE, Count(), "count", name="counts")
    )
    found = dict(results(on_spark, topology)["counts"])
    assert found == {
        "COWc": 1, "COWo": 1, "COWw": 1, "JUMPEDd": 1, "JUMPEDe": 1, "JUMPEDj": 1, "JUMPEDm": 1, "JUMPEDp": 1,
        "JUMPEDu": 1, "MOONm": 1, "MOONn": 1, "MOONo": 2, "THEe": 2, "THEh": 2, "THEt": 2,
    }  # fmt: skip
    assert results(on_spark, topology, batch=1) == {"counts": []}


@pytest.mark.connect
def test_python_between_native_operations(on_spark: OnSpark) -> None:
    topology = TridentTopology()
    words = stream(topology, "line string", LINES).each("line", SPLIT, "word string")
    lengths = words.each("word", len, "n int").filter("n", expr("n > 3")).each("n", lambda n: n * 2, "m long")
    lengths.groupBy("m").persistentAggregate(STATE, "n", Max(), "max", name="max")
    assert results(on_spark, topology) == {"max": [(12, 6), (8, 4)]}


@pytest.mark.connect
def test_the_whole_dataframe_api(on_spark: OnSpark) -> None:
    known = on_spark.session.createDataFrame([("cow", "animal"), ("moon", "thing")], "word string, kind string")
    topology = TridentTopology()
    words = stream(topology, "line string", LINES).each("line", split, "word string")
    kinds = words.transform(lambda df, known: df.join(known, "word").select("kind", "word"), "kind string", known=known)
    kinds.groupBy("kind").persistentAggregate(STATE, Count(), "count", name="kinds")
    assert results(on_spark, topology) == {"kinds": [("animal", 1), ("thing", 1)]}


BAD: dict[str, tuple[Any, str]] = {
    "unknown column": (
        lambda s: s.each("line", expr("upper(lime)"), "loud string"),
        r"s/1:each\(.*\): .*UNRESOLVED_COLUMN.*lime",
    ),
    "no expression": (
        lambda s: s.each("line", expr("upper(line"), "loud string"),
        r"s/1:each.*expr.*\(test_spark.py:\d+\) .*PARSE_SYNTAX_ERROR",
    ),
    "another type": (
        lambda s: s.each("line", expr("length(line)"), "loud string"),
        r"gives int for field 'loud', which is declared as string; cast it there, or change the declaration",
    ),
    "too few fields": (
        lambda s: s.each("line", expr("named_struct('a', 1)"), "a int, b int"),
        r"returns struct<a:int>, but 2 fields are declared: \(a, b\)",
    ),
    "at run time": (
        lambda s: s.each("line", expr("CAST(line AS int)"), "n int"),
        r"s/1:each\(.*\): expr\('CAST\(line AS int\)'\) \(test_spark.py:\d+\) failed in Spark: "
        r"The value 'the cow jumped' of the type \"STRING\" cannot be cast to \"INT\".* \[CAST_INVALID_INPUT\]$",
    ),
    "a part at run time": (
        lambda s: (
            s.each("line", expr("length(line)"), "m int")
            .each("line", expr("m +\n  CAST(line AS\n  int) * 2"), "n int")
            .each("n", expr("n + 1"), "o int")
        ),
        r"s/2:each\(.*\): expr\(.*\) \(test_spark.py:\d+\) failed in Spark: The value .*; "
        r"it failed in CAST\(line AS int\)$",
    ),
    "a part of several at run time": (
        lambda s: s.each("line", expr("CAST(line AS int)"), "m int").each(
            "line", expr("CAST(line AS int) + 1"), "n int"
        ),
        r"an expression failed in Spark: The value .*; it failed in CAST\(line AS int\); "
        r"the steps with expressions are s/1:each.*, s/2:each.* \(test_spark.py:\d+\)$",
    ),
    "a Column at run time": (
        lambda s: s.each("line", expr("length(line)"), "m int").each("line", cast_to_int, "n int"),
        r"s/2:each\(.*\): cast_to_int \(test_spark.py:\d+\) failed in Spark: The value 'the cow jumped' .*; "
        r"\"cast\" was called in test_spark.py:\d+$",
    ),
    "without a part at run time": (
        lambda s: s.each("line", expr("raise_error(concat('not ', line))"), "n int"),
        r"an expression failed in Spark: not the cow jumped .*; the steps with expressions are s/1:each.*raise_error",
    ),
    "a transform without a field": (
        lambda s: s.transform(lambda df: df.withColumnRenamed("line", "text"), "line string"),
        r"s/1:transform.*gave a DataFrame without 'line'; its columns are \(text\)",
    ),
    "a transform that gives nothing": (
        lambda s: s.transform(lambda df: None, "line string"),
        r"s/1:transform.*returned NoneType; expected a DataFrame",
    ),
    "a transform that raises": (
        lambda s: s.transform(lambda df: df.missing(), "line string"),
        r"s/1:transform.*\(test_spark.py:\d+\)",
    ),
}


@pytest.mark.connect
@pytest.mark.parametrize("case", BAD)
def test_what_spark_refuses_names_the_step(on_spark: OnSpark, case: str) -> None:
    change, message = BAD[case]
    topology = TridentTopology()
    changed = change(stream(topology, "line string", LINES))
    changed.groupBy(changed.schema.names[-1]).persistentAggregate(STATE, Count(), "count", name="counts")
    with pytest.raises(UserFunctionError, match=message) as failed:
        results(on_spark, topology)
    if case.endswith("at run time"):
        assert isinstance(failed.value.__cause__, PySparkException)


@pytest.mark.connect
def test_a_run_names_the_line_of_a_column_too(spark: SparkSession, tmp_path: Path) -> None:
    """In a thread of the run, in which no session was active."""
    topology = TridentTopology()
    lines = stream(topology, "line string", LINES).each("line", expr("length(line)"), "m int")
    lines.each("line", cast_to_int, "n int").persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    with (
        pytest.raises(BatchFailedError, match=r"s/2:each\(cast_to_int\): .* was called in test_spark.py:\d+"),
        topology.start(spark, name="cast", checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)


def test_the_driver_side_engine_runs_no_expression() -> None:
    topology = TridentTopology()
    stream(topology, "line string", LINES).each("line", SPLIT, "w string").persistentAggregate(STATE, Count(), "n")
    with pytest.raises(MissingSessionError, match=r"s/1:each.*only Spark can run this step"):
        ArrowEngine().slot(one_group(topology))


# --- evaluated once -----------------------------------------------------------------------------------------------


@pytest.mark.connect
def test_a_stream_used_twice_is_evaluated_once(on_spark: OnSpark, tmp_path: Path) -> None:
    shared, alone = CountedCalls(tmp_path / "shared"), CountedCalls(tmp_path / "alone")
    topology = TridentTopology()
    words = stream(topology, "word string", ["a", "b", "a", "c", "d"]).each("word", shared, "w string")
    words.groupBy("w").persistentAggregate(STATE, Count(), "count", name="counts")
    words.each("w", alone, "v string").persistentAggregate(STATE, "v", Longest(), "longest", name="longest")
    words.filter("w", expr("w > 'a'")).aggregate(Count(), "n").persistentAggregate(STATE, "n", Sum(), "s", name="s")
    words.each(Debug("words")).peek(lambda t: None)
    found = results(on_spark, topology)
    assert found == {"counts": [("a", 2), ("b", 1), ("c", 1), ("d", 1)], "longest": [("d",)], "s": [(3,)]}
    assert (shared.calls, alone.calls) == (5, 5)


def test_a_random_function_gives_both_readers_the_same(on_spark: OnSpark) -> None:
    import random

    topology = TridentTopology()
    seen = stream(topology, "n int", range(50)).each("n", lambda n: random.random(), "x double")
    native = seen.each("n", expr("rand()"), "y double")
    for name, keys in (("one", "n, x, y"), ("two", "x, n, y")):  # alike, Spark would shuffle once for both
        native.groupBy(keys).persistentAggregate(STATE, Count(), "count", name=name)
    found = results(on_spark, topology)
    assert found["one"] == sorted(((n, x, y, count) for x, n, y, count in found["two"]), key=repr)


@pytest.mark.connect
def test_a_leaf_without_a_state_runs_for_what_it_does(on_spark: OnSpark, tmp_path: Path) -> None:
    marks = CountedCalls(tmp_path / "marks")
    topology = TridentTopology()
    stream(topology, "word string", ["a", "b", "a"]).peek(lambda t: marks(t.word) and None)
    assert run(on_spark, topology).results == {} and marks.calls == 3


# --- sessions -----------------------------------------------------------------------------------------------------


@pytest.mark.connect
def test_the_given_session_is_not_changed(other_spark: SparkSession) -> None:
    given = other_spark
    given.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    before, active = given.conf.getAll, SparkSession.getActiveSession()
    topology = TridentTopology()
    stream(topology, "at timestamp", []).each("at", expr("hour(at)"), "h int").groupBy("h").persistentAggregate(
        STATE, Count(), "count", name="hours"
    )
    group = one_group(topology)
    slot = SparkEngine(given).slot(group)
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    given_tuples = {group.spouts[0]: emission("at timestamp", (noon,))}
    found = slot.run(group.stages[0], given_tuples, ATTEMPT, Path(_folder()))
    assert rows(found.results["hours"]) == [(21, 1)], "its confs were copied"
    assert given.conf.getAll == before
    assert SparkSession.getActiveSession() is active
    slot.close()


def _folder() -> str:
    import tempfile

    return tempfile.mkdtemp()


@pytest.mark.connect
def test_a_runs_session_has_the_same_confs_and_database(spark: SparkSession) -> None:
    session = run_session(spark)
    wanted = {k: v for k, v in spark.conf.getAll.items() if k.startswith("spark.sql") and spark.conf.isModifiable(k)}
    assert wanted.items() <= session.conf.getAll.items()
    assert session.catalog.currentDatabase() == spark.catalog.currentDatabase()
    session.conf.set("spark.sql.shuffle.partitions", "77")
    assert spark.conf.get("spark.sql.shuffle.partitions") != "77"
    released(session)
    assert spark.range(1).count() == 1


def left_on(spark: SparkSession) -> object:
    """Return how many tasks run in the Spark of all tests, for the message of a test that got no core."""
    if is_connect(spark):
        return "unknown"
    executors = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    return sum(executor.numRunningTasks() for executor in executors)


@pytest.mark.connect
def test_cancel_stops_this_batch_and_no_other(on_spark: OnSpark, spark: SparkSession, tmp_path: Path) -> None:
    """The other batch has begun before, so a core is free for it even if a task of another test has not ended."""
    slow, other = TridentTopology(), TridentTopology()
    for topology, name in ((slow, "slow"), (other, "other")):
        words = stream(topology, "word string", ["a"]).each("word", Waiter(tmp_path / name), "w string")
        words.groupBy("w").persistentAggregate(STATE, Count(), "count", name="counts")
    engine = SparkEngine(spark)
    slots = {name: engine.slot(one_group(t)) for name, t in (("slow", slow), ("other", other))}
    outcome: dict[str, Any] = {}

    def work(name: str, topology: TridentTopology) -> None:
        group = one_group(topology)
        given = {group.spouts[0]: emission("word string", ("a",))}
        try:
            outcome[name] = slots[name].run(group.stages[0], given, ATTEMPT, tmp_path / f"scratch-{name}")
        except Exception as error:
            outcome[name] = error

    def begun(name: str, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while not (tmp_path / name).exists() and time.monotonic() < deadline:
            time.sleep(0.05)
        return (tmp_path / name).exists()

    threads = {name: threading.Thread(target=work, args=(name, t)) for name, t in (("slow", slow), ("other", other))}
    threads["other"].start()
    assert begun("other", 240), f"no core was free: {left_on(spark)} tasks run"
    threads["slow"].start()
    begun("slow", 5)  # without a second core its job waits, and is cancelled while it waits
    slots["slow"].cancel()
    threads["slow"].join(120)
    assert isinstance(outcome.get("slow"), AttemptCancelledError), (outcome, left_on(spark))
    assert "other" not in outcome
    (tmp_path / "other.over").touch()
    threads["other"].join(120)
    assert isinstance(outcome.get("other"), StageResult), outcome
    assert rows(outcome["other"].results["counts"]) == [("a", 1)]
    for slot in slots.values():
        slot.close()


@pytest.mark.connect
def test_a_cancel_between_batches_cancels_nothing(on_spark: OnSpark) -> None:
    topology = TridentTopology()
    stream(topology, "n long", [1, 2]).persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    group = one_group(topology)
    slot = on_spark.slot(group)
    slot.cancel()
    found = slot.run(group.stages[0], {group.spouts[0]: emission("n long", (1,), (2,))}, ATTEMPT, Path(_folder()))
    assert rows(found.results["sum"]) == [(3,)]


# --- what enters --------------------------------------------------------------------------------------------------


def test_tuples_of_other_fields_are_refused(on_spark: OnSpark) -> None:
    topology = TridentTopology()
    stream(topology, "n long", [1]).persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    group = one_group(topology)
    given = {group.spouts[0]: emission("n long, m long", (1, 2))}
    with pytest.raises(SpoutContractError, match=r"the tuples have the fields \(n, m\), but \(n\) is declared"):
        on_spark.slot(group).run(group.stages[0], given, ATTEMPT, Path(_folder()))


@pytest.mark.connect
def test_an_unreadable_file_is_a_source_error(on_spark: OnSpark, tmp_path: Path) -> None:
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 this is no Parquet file PAR1")
    topology = TridentTopology()
    stream(topology, "n long", [1]).persistentAggregate(STATE, "n", Sum(), "sum", name="sum")
    group = one_group(topology)
    for name, reason in (("broken", "broken.parquet"), ("missing", "missing.parquet")):
        given = {group.spouts[0]: FilesEmission((str(tmp_path / f"{name}.parquet"),), parse_schema("n long"))}
        with pytest.raises(SourceUnreadableError, match=reason):
            on_spark.slot(group).run(group.stages[0], given, ATTEMPT, tmp_path / "scratch")


@pytest.mark.connect
def test_a_function_that_cannot_travel_says_so(on_spark: OnSpark) -> None:
    topology = TridentTopology()
    lock = threading.Lock()
    words = stream(topology, "word string", ["a"]).each("word", lambda w: w if lock.locked() else w, "w string")
    words.groupBy("w").persistentAggregate(STATE, Count(), "count", name="counts")
    with pytest.raises(
        UserFunctionError, match=r"<lambda> \(test_spark.py:\d+\) cannot be sent to Spark's workers: .*lock"
    ):
        results(on_spark, topology)


@pytest.mark.connect
def test_a_function_that_uses_the_session_says_how_to_look_values_up(on_spark: OnSpark, spark: SparkSession) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n long", [1]).each("n", lambda n: spark.range(n).count(), "m long")
    numbers.persistentAggregate(STATE, "m", Sum(), "sum", name="sum")
    with pytest.raises(
        UserFunctionError, match="runs without a Spark session, .*: look values up with joinTable, stateQuery or"
    ):
        results(on_spark, topology)


# --- nothing ----------------------------------------------------------------------------------------------------


NOTHING: dict[str, tuple[Any, Any]] = {
    "python": (lambda s: s.persistentAggregate(STATE, "word", Longest(), "l", name="x"), ("",)),
    "native": (lambda s: s.persistentAggregate(STATE, Count(), "n", name="x"), (0,)),
    "fused": (lambda s: s.each("word", str.upper, "w string").persistentAggregate(STATE, Count(), "n", name="x"), (0,)),
    "python, then native": (
        lambda s: s.aggregate("word", Longest(), "l").persistentAggregate(STATE, "l", Max(), "max", name="x"),
        ("",),
    ),
    "native, then python": (
        lambda s: (
            s.aggregate(Count(), "n")
            .each("n", lambda n: n + 1, "m long")
            .persistentAggregate(STATE, "m", Sum(), "sum", name="x")
        ),
        (1,),
    ),
    "grouped": (lambda s: s.groupBy("word").persistentAggregate(STATE, "word", Longest(), "l", name="x"), None),
}


@pytest.mark.parametrize("case", NOTHING)
@pytest.mark.parametrize("size", ["small", "large"])
def test_what_spark_cuts_down_to_nothing_still_has_its_zero(
    on_spark: OnSpark, monkeypatch: pytest.MonkeyPatch, case: str, size: str
) -> None:
    """Spark knows that this filter leaves nothing, and where it plans adaptively it runs no function behind it."""
    monkeypatch.setattr("trident.compiler.spark.sessions.SMALL_ROWS", 10 if size == "small" else 0)
    change, expected = NOTHING[case]
    topology = TridentTopology()
    change(stream(topology, "word string", ["a", "b"]).filter("word", expr("word = 'c'")))
    assert results(on_spark, topology) == {"x": [] if expected is None else [expected]}


# --- sizes --------------------------------------------------------------------------------------------------------


def many_ways() -> TridentTopology:
    """Return a topology with aggregates of every kind over Python and native operations."""
    topology = TridentTopology()
    lines = stream(topology, "line string", [])
    words = lines.each("line", split, "word string")
    words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="python-native")
    native = lines.each("line", SPLIT, "word string")
    native.groupBy("word").persistentAggregate(STATE, Count(), "count", name="native")
    native.groupBy("word").persistentAggregate(STATE, "word", Longest(), "l", name="native-python")
    lengths = native.each("word", len, "n int")
    lengths.groupBy("n").persistentAggregate(STATE, "word", Longest(), "l", name="python")
    lengths.groupBy("n").aggregate("n", Sum(), "s").persistentAggregate(STATE, "s", Max(), "max", name="twice")
    lengths.persistentAggregate(STATE, "word", Longest(), "l", name="all")
    lengths.aggregate("n", Tally(), "t").persistentAggregate(STATE, "t", Sum(), "s", name="all-twice")
    lines.persistentAggregate(STATE, Count(), "lines", name="lines")
    return topology


def text(tmp_path: Path, content: str) -> LinesEmission:
    """Return a text file that is not read on the driver, although it is small."""
    file = tmp_path / "lines.txt"
    file.write_text(content)
    size = len(content.encode())
    form = TextFormat(parse_schema("line string"), "strict", driver_bytes=0)
    return LinesEmission((Stretch(str(file), 0, size, 0, size),), form)


def parquet(tmp_path: Path, lines: list[str]) -> FilesEmission:
    """Return two Parquet files, of one row group and of several."""
    pq.write_table(pa.table({"line": lines[:50], "nobody reads": [0] * 50}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"line": lines[50:]}), tmp_path / "b.parquet", row_group_size=20)
    paths = tuple(str(tmp_path / f"{name}.parquet") for name in "ab")
    return FilesEmission(paths, parse_schema("line string"), rows=len(lines))


@pytest.mark.connect
@pytest.mark.parametrize("size", ["small", "large", "read by the workers", "Parquet"])
def test_a_batchs_size_changes_how_it_runs_and_not_what_it_is(
    on_spark: OnSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str
) -> None:
    monkeypatch.setattr("trident.compiler.spark.sessions.SMALL_ROWS", 10 if size == "large" else 10_000)
    monkeypatch.setattr("trident.compiler.spark.sessions.SMALL_SECONDS", 0.0)
    lines = ["the cow jumped", "over the moon"] * 100
    group = one_group(many_ways())
    given: Any = emission("line string", *[(line,) for line in lines])
    if size == "read by the workers":
        given = text(tmp_path, "\n".join(lines) + "\n")
    if size == "Parquet":
        given = parquet(tmp_path, lines)
    slot = on_spark.slot(group)
    for turn in range(2 if size == "large" else 1):  # the second knows how few rows the first gave
        found = slot.run(group.stages[0], {group.spouts[0]: given}, ATTEMPT, tmp_path / f"scratch-{turn}")
    words = {"the": 200, "cow": 100, "jumped": 100, "over": 100, "moon": 100}
    assert {name: rows(result) for name, result in found.results.items()} == {
        "python-native": sorted(words.items()),
        "native": sorted(words.items()),
        "native-python": sorted((word, word) for word in words),
        "python": [(3, "the"), (4, "over"), (6, "jumped")],
        "twice": [(900,)],
        "all": [("jumped",)],
        "all-twice": [(600,)],
        "lines": [(200,)],
    }
    assert found.rows == 200


@pytest.mark.parametrize("aggregator", [Longest(), TopK(1)], ids=lambda each: type(each).__name__)
def test_the_driver_merges_accumulators_that_were_few_before(
    on_spark: OnSpark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, aggregator: Any
) -> None:
    """Python's accumulators too, by columns or value by value, if they have few bytes."""
    for name, value in (("SMALL_ROWS", 10), ("SMALL_SECONDS", 0.0)):
        monkeypatch.setattr(f"trident.compiler.spark.sessions.{name}", value)
    shuffled: list[object] = []

    def noted(*given: Any) -> Any:
        shuffled.append(given)
        return merged_by_key(*given)

    monkeypatch.setattr("trident.compiler.spark.lowering.merged_by_key", noted)
    topology = TridentTopology()
    words = stream(topology, "word string, n long", [])
    words.groupBy("n").persistentAggregate(STATE, "word", aggregator, "found", name="found")
    group = one_group(topology)
    given = emission("word string, n long", *[("cow"[: n % 4], n % 3) for n in range(60)])
    slot, found = on_spark.slot(group), []
    for turn in range(4):
        if turn == 2:  # the next results count as large
            monkeypatch.setattr("trident.compiler.spark.sessions.MERGE_BYTES", 0)
        done = slot.run(group.stages[0], {group.spouts[0]: given}, ATTEMPT, tmp_path / f"{turn}")
        found.append((len(shuffled), rows(done.results["found"])))
    assert [count for count, _ in found] == [1, 1, 1, 2], "by executors at first, and again behind a large result"
    assert all(result == found[0][1] for _, result in found) and len(found[0][1]) == 3


@pytest.mark.connect
def test_malformed_input_on_a_worker_is_a_typed_error(on_spark: OnSpark, tmp_path: Path) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string", [])
    lines.each("line", split, "word string").groupBy("word").persistentAggregate(STATE, Count(), "n", name="fused")
    lines.each("line", SPLIT, "word string").groupBy("word").persistentAggregate(STATE, Count(), "n", name="shared")
    group = one_group(topology)
    given = text(tmp_path, "good\nbad \n")
    (tmp_path / "lines.txt").write_bytes(b"good\nbad\xff\n")
    with pytest.raises(MalformedInputError, match=r"lines.txt"):
        on_spark.slot(group).run(group.stages[0], {group.spouts[0]: given}, ATTEMPT, tmp_path / "scratch")


@pytest.mark.connect
def test_timestamps_are_instants_whatever_the_sessions_zone(other_spark: SparkSession, tmp_path: Path) -> None:
    given = other_spark
    given.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    topology = TridentTopology()
    times = stream(topology, "at timestamp", []).each("at", an_hour_later, "later timestamp")
    times.each("later", expr("date_format(later, 'HH')"), "hour string").groupBy("later, hour").persistentAggregate(
        STATE, Count(), "count", name="hours"
    )
    group = one_group(topology)
    noon = datetime.datetime(2020, 1, 1, 12, tzinfo=datetime.UTC)
    slot = SparkEngine(given).slot(group)
    found = slot.run(group.stages[0], {group.spouts[0]: emission("at timestamp", (noon,))}, ATTEMPT, tmp_path)
    assert rows(found.results["hours"]) == [(noon + datetime.timedelta(hours=1), "22", 1)]
    slot.close()


@pytest.mark.parametrize("how", ["one file", "a larger file", "two files", "placed elsewhere", "read twice", "merged"])
def test_what_is_read_in_one_partition_is_aggregated_there(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    """Spark does not know of a small file that it is one partition, and would shuffle."""
    topology = TridentTopology()
    lines = stream(topology, "line string", [])
    words = lines.each("line", SPLIT, "word string").filter("word", FilterNull()).project("word")
    if how == "placed elsewhere":
        words = words.shuffle()
    if how == "merged":
        words = words.merge(words)
    state = words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="native")
    if how == "read twice":
        lines.groupBy("line").persistentAggregate(STATE, Count(), "count", name="lines")
    given = parquet(tmp_path, LINES * 30)
    if how == "a larger file":  # its tuples cost more in a loop of their own than a shuffle does
        padded = pa.table({"line": ["x" * (1 << 19)]})
        pq.write_table(padded, given.paths[0], compression="NONE")
    stage, files = cut(topology).groups[0].stages[0], given.paths if how == "two files" else given.paths[:1]
    source, plan = stage.inputs[0], layout(stage_ends(stage), stage.inputs, stage.debugs)
    emission = FilesEmission(files, given.schema)
    inputs = {id(source): stage_input(source, plan.names(source), emission, spark, tmp_path)}
    frame = Lowering(plan, inputs, Profile(False, 2), {}).frame(state._node)
    frame.explain()
    assert ("Exchange" in capsys.readouterr().out) == (how != "one file")
