"""The cost of a small batch in Spark's JVM: few calls, and one stage."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

from tests.compiler.functions import split
from tests.compiler.stage_runner import STATE, emission, rows, stream
from trident import Count, Max, TridentTopology, expr
from trident.base.attempt import TransactionAttempt
from trident.compiler.spark import plan_functions
from trident.compiler.spark.cached_plans import CachedPlans
from trident.compiler.spark.engine import SparkEngine
from trident.compiler.spark.lowering import Lowering
from trident.compiler.spark.sessions import OWN_SPARK, Profile
from trident.compiler.spark.stage_inputs import stage_input
from trident.compiler.stage_layout import layout, stage_ends
from trident.compiler.stages import cut

pytestmark = pytest.mark.spark
SPLIT = expr("explode(split(line, ' '))")
MOST_CALLS = 20
"""The most calls of a batch that groups and counts. PySpark alone makes about a hundred for the same DataFrame."""

MOST_CALLS_OF_A_KEPT_PLAN = 16


def counted(split_by: Any) -> TridentTopology:
    topology = TridentTopology()
    words = stream(topology, "line string", []).each("line", split_by, "word string")
    words.groupBy("word").persistentAggregate(STATE, Count(), "count", name="counts")
    return topology


def batches(spark: SparkSession, folder: Path, split_by: Any) -> Callable[[int], list[Any]]:
    """Return a function that runs a batch in one and the same slot, and returns the counts."""
    (group,) = cut(counted(split_by)).groups
    slot = SparkEngine(spark).slot(group)

    def run(txid: int) -> list[Any]:
        lines = emission("line string", ("the cow",), (f"the word{txid}",))
        result = slot.run(group.stages[0], {group.spouts[0]: lines}, TransactionAttempt(txid, 0), folder)
        return sorted(rows(result.results["counts"]))

    return run


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give the commands that this thread sends to the JVM, but for those that free an object."""
    commands: list[str] = []
    send, mine = ClientServerConnection.send_command, threading.get_ident()

    def noted(connection: ClientServerConnection, command: str) -> str:
        if threading.get_ident() == mine and not command.startswith("m\n"):
            commands.append(command)
        answer: str = send(connection, command)
        return answer

    monkeypatch.setattr(ClientServerConnection, "send_command", noted)
    return commands


@pytest.mark.parametrize(
    ("split_by", "kept", "most"),
    [(SPLIT, True, MOST_CALLS_OF_A_KEPT_PLAN), (SPLIT, False, MOST_CALLS), (split, True, MOST_CALLS)],
    ids=["kept", "native", "python"],
)
def test_a_batch_sends_only_what_is_new(
    spark: SparkSession, tmp_path: Path, sent: list[str], monkeypatch: pytest.MonkeyPatch,
    split_by: Any, kept: bool, most: int,
) -> None:  # fmt: skip
    if not kept:
        monkeypatch.setattr(CachedPlans, "use", lambda *_: None)
    run = batches(spark, tmp_path, split_by)
    for txid in (1, 2):
        run(txid)
    before = len(sent)
    assert run(3) == [("cow", 1), ("the", 2), ("word3", 1)]
    assert len(sent) - before <= most, "\n".join(sent[before:])


def test_a_function_is_sent_by_pyspark_if_it_makes_functions_in_another_way(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan_functions, "_template", lambda *_: None)
    monkeypatch.setattr(plan_functions, "_templates", {})
    assert batches(spark, tmp_path, split)(1) == [("cow", 1), ("the", 2), ("word1", 1)]


class Prefixed:
    """A split whose words begin with the value of a broadcast variable."""

    def __init__(self, prefix: Any) -> None:
        self.prefix = prefix

    def __call__(self, line: str) -> list[str]:
        return [self.prefix.value + word for word in line.split(" ")]


def test_a_function_brings_its_broadcast_variable(spark: SparkSession, tmp_path: Path) -> None:
    prefixed = Prefixed(spark.sparkContext.broadcast("-"))

    def words(line: str) -> Iterator[str]:
        yield from prefixed(line)

    run = batches(spark, tmp_path, words)
    for txid in (1, 2):
        assert run(txid) == [("-cow", 1), ("-the", 2), (f"-word{txid}", 1)]


@pytest.mark.parametrize(("profile", "stages"), [(Profile(True, 1), 1), (Profile(True, 4), 2)])
def test_a_tiny_batch_is_one_stage(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], profile: Profile, stages: int
) -> None:
    topology = TridentTopology()
    words = stream(topology, "line string", []).each("line", SPLIT, "word string")
    longest = words.groupBy("word").aggregate("word", Max(), "most")
    state = longest.groupBy("most").persistentAggregate(STATE, Count(), "count", name="native")
    stage = cut(topology).groups[0].stages[0]
    source, plan = stage.inputs[0], layout(stage_ends(stage), stage.inputs, stage.debugs)
    table = pa.table({"line": ["the cow", "the moon"]})
    inputs = {id(source): stage_input(source, plan.names(source), table, spark, tmp_path)}
    frame = Lowering(plan, inputs, profile, {}).frame(state._node)
    frame.explain()
    assert ("Exchange" in capsys.readouterr().out) == (stages > 1)
    assert sorted(map(tuple, frame.collect())) == [("cow", 1), ("moon", 1), ("the", 1)]


def test_a_spark_of_our_own_speaks_to_its_workers_without_tcp() -> None:
    assert OWN_SPARK["spark.python.unix.domain.socket.enabled"] == "true"
