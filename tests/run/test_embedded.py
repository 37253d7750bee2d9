"""start(engine="embedded"): the same topology without a JVM, and a refusal of every step that only Spark can run."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from tests.run.embedded_program import COUNTS, counting
from trident import Count, MapGet, TridentTopology, active, expr
from trident.errors import MissingSessionError, TopologyError
from trident.run import engines
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import MemoryMapState
from trident.stream import Stream

HERE = Path(__file__).name


@pytest.fixture(autouse=True)
def no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every try to get a session fail: other tests of this process may have a Spark at work."""

    def refuse(spark: object) -> None:
        raise AssertionError("the embedded engine asked for a SparkSession")

    monkeypatch.setattr(engines, "session_for", refuse)


def test_batches_are_counted_and_queried_without_a_session(tmp_path: Path) -> None:
    with counting().start(engine="embedded", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == COUNTS
        assert running.drpc.execute("ask", word="cow")[0]["count"] == 2


def test_status_progress_repr_and_explain_say_which_engine_runs(capsys: pytest.CaptureFixture[str]) -> None:
    with counting().start(engine="embedded", name="e") as running:
        running.processAllAvailable(timeout=30)
        assert running.engine == running.status["engine"] == "embedded"
        assert {event["engine"] for event in running.recentProgress} == {"embedded"}
        assert repr(running) == "<RunningTopology 'e' on engine 'embedded', running: lines at txid 2>"
        running.explain()
    said = capsys.readouterr().out
    assert "\nengine embedded\nbatch group lines\n" in said
    assert re.search(r"lines/1:flatMap\(split\) .* driver\n", said) and "Python" not in said and "Spark" not in said


def test_explain_shows_before_a_start_what_the_embedded_engine_would_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    some = topology.newStream("lines", FixedBatchSpout("line string", []))
    some.each("line", expr("upper(line)"), "loud string").each("loud", len, "n int").peek("n", print)
    topology.explain("embedded")
    said = capsys.readouterr().out
    assert re.search(r"lines/1:each\(expr\) .* only on Spark\n", said)
    assert re.search(r"lines/2:each\(len\) .* driver; of loud\n", said)
    topology.explain()
    assert "\nengine spark\n" in capsys.readouterr().out


# --- what is refused --------------------------------------------------------------------------------------------------


def loud(line: Column) -> Column:
    return F.upper(line)


def first_rows(frame: DataFrame) -> DataFrame:
    return frame.limit(1)


def send(frame: DataFrame, txid: int, attempt: int) -> None: ...


def ends(verb: Callable[[Stream], Any]) -> Callable[[TridentTopology], Any]:
    return lambda topology: verb(topology.newStream("lines", FixedBatchSpout("line string", [["a"]])))


def asked(topology: TridentTopology) -> Any:
    topology.newStream("lines", FixedBatchSpout("line string", [["a"]])).peek(print)
    return topology.newDRPCStream("loud", "line string").each("line", expr("upper(line)"), "loud string")


STEPS = {
    "expression": (
        ends(lambda lines: lines.each("line", expr("upper(line)"), "loud string").peek(print)),
        rf"lines/1:each\(expr\) \[called at {HERE}:\d+\]: write the SQL expression as a Python function",
    ),
    "columns": (
        ends(lambda lines: lines.each("line", loud, "loud string").peek(print)),
        rf"lines/1:each\(loud\) \[loud \({HERE}:\d+\), called at {HERE}:\d+\]: write it as a function of values",
    ),
    "udf": (
        ends(lambda lines: lines.each("line", F.udf(lambda line: line * 2, StringType()), "twice string").peek(print)),
        rf"lines/1:each\(<lambda>\) \[.*called at {HERE}:\d+\]: give the function inside the udf",
    ),
    "transform": (
        ends(lambda lines: lines.transform(first_rows).peek(print)),
        rf"lines/1:transform\(first_rows\) \[first_rows \({HERE}:\d+\), called at {HERE}:\d+\]: write it with each",
    ),
    "foreachBatch": (
        ends(lambda lines: lines.foreachBatch(send)),
        rf"lines/1:foreachBatch\(send\) \[send \({HERE}:\d+\), called at {HERE}:\d+\]: get .* with foreachArrow",
    ),
    "branch": (
        ends(lambda lines: lines.bestEffort().filter("line", expr("line > 'a'")).peek(print)),
        rf"filter\(expr\) \[called at {HERE}:\d+\]: write the SQL expression as a Python function",
    ),
    "DRPC": (asked, rf"loud\(\)/1:each\(expr\) \[called at {HERE}:\d+\]: write the SQL expression"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_step_that_only_spark_can_run_is_refused_by_name_before_anything_is_touched(
    step: str, tmp_path: Path
) -> None:
    write, said = STEPS[step]
    topology = TridentTopology()
    write(topology)
    with pytest.raises(MissingSessionError, match=f"engine='embedded' has no Spark, and only Spark can run .*{said}"):
        topology.start(engine="embedded", name="refused", checkpointLocation=tmp_path)
    assert not list(tmp_path.iterdir()) and not active()


def test_all_such_steps_are_named_at_once_and_a_running_driver_stays(tmp_path: Path) -> None:
    feeder = FeederBatchSpout("line string")
    with spoken(feeder, native=False).start(engine="embedded", checkpointLocation=tmp_path) as running:
        with pytest.raises(
            MissingSessionError, match=r"lines/1:each\(expr\) .*; lines/2:filter\(expr\) .* runs unchanged$"
        ):
            spoken(feeder, native=True).start(engine="embedded", checkpointLocation=tmp_path, replace=True)
        feeder.feed(["a"], wait=True, timeout=30)
        assert dict(running.state("counts").items()) == {"A": 1}


def spoken(feeder: FeederBatchSpout, native: bool) -> TridentTopology:
    topology = TridentTopology()
    lines = topology.newStream("lines", feeder)
    words = lines.each("line", expr("upper(line)") if native else str.upper, "loud string")
    words = words.filter("loud", expr("loud > ''") if native else bool)
    words.groupBy("loud").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"engine": "embeded"}, r"engine='embeded'; did you mean 'embedded'\?: expected 'spark', 'embedded' or 'auto'"),
        ({"engine": "embedded", "spark": object()}, "which runs without Spark: omit one of them"),
        ({"engine": "embedded", "clokc": 1}, "start has no option 'clokc'.*its options are engine, name, "),
    ],
)
def test_a_wrong_engine_is_refused(options: dict[str, Any], said: str, tmp_path: Path) -> None:
    with pytest.raises(TopologyError, match=said):
        counting().start(checkpointLocation=tmp_path, **options)
    assert not list(tmp_path.iterdir())


def test_explain_knows_the_engines_too() -> None:
    with pytest.raises(TopologyError, match="engine='flink': expected 'spark', 'embedded' or 'auto'"):
        counting().explain("flink")  # type: ignore[arg-type]


def test_outputs_take_arrow_tables_and_an_answer_reads_the_state(tmp_path: Path) -> None:
    taken: list[tuple[int, dict[str, list[Any]]]] = []

    def take(table: pa.Table, txid: int, attempt: int) -> None:
        taken.append((txid, table.to_pydict()))

    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"], ["a", "b"]]))
    counts = words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    words.stateQuery(counts, "word", MapGet(), "before").foreachArrow(take)
    with topology.start(engine="embedded", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    assert taken == [
        (1, {"word": ["a"], "before": [None]}),
        (2, {"word": ["a", "b"], "before": [1, None]}),
    ]
