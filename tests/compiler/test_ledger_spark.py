"""Rows that get lost or come twice on their way through Spark: the ledger says where, and the attempt fails."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow.compute as pc
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.compiler.functions import Longest, half
from tests.compiler.stage_runner import STATE, OnSpark, results, run, stream
from trident import Count, TridentTopology, expr
from trident.base.errors import LedgerError
from trident.base.spark_types import spark_schema
from trident.compiler.partition_functions import Batches
from trident.compiler.spark import stage_inputs
from trident.compiler.spark.pending_function import PendingFunction, in_arrow
from trident.compiler.spark.worker_functions import REPORT, Reporting, partition_id
from trident.compiler.tracking.ledger import Ledger

pytestmark = pytest.mark.spark

WORDS = [f"w{n % 7}" for n in range(40)]


class WithLedger(OnSpark):
    """The Spark engine with a ledger for each batch."""

    def __init__(self, spark: SparkSession) -> None:
        super().__init__(spark)
        self.engine._secret = b"secret"


@pytest.fixture(scope="module")
def slots(spark: SparkSession) -> Iterator[WithLedger]:
    slots = WithLedger(spark)
    yield slots
    slots.close()


@dataclass(frozen=True)
class Fault:
    """A fault on the way of one partition's rows, behind the function that sends them."""

    what: str
    partition: int

    def __call__(self, batches: Batches) -> Batches:
        for batch in batches:
            if partition_id() != self.partition:
                yield batch
                continue
            reports = batch.column(batch.schema.get_field_index(REPORT)).is_valid()
            tuples = batch.filter(pc.invert(reports))
            match self.what:
                case "rows lost":
                    yield batch.filter(reports)
                case "one row lost":
                    yield tuples.slice(1)
                    yield batch.filter(reports)
                case "rows doubled":
                    yield tuples
                    yield batch
                case "report lost":
                    yield tuples
                case "all doubled":
                    yield batch
                    yield batch


def plant(monkeypatch: pytest.MonkeyPatch, edge: str, fault: Fault) -> None:
    """Put a fault behind the function that sends rows over an edge."""
    sound = PendingFunction.frame

    def faulty(self: PendingFunction) -> DataFrame:
        frame, function = sound(self), self.function
        counted = function.way.edge if isinstance(function, Reporting) else None
        if counted is not None and counted.name.endswith(edge):
            return in_arrow(frame, fault, spark_schema(self.leaving))
        return frame

    monkeypatch.setattr(PendingFunction, "frame", faulty)


def longest() -> TridentTopology:
    """A shuffle between two Python functions, and an output."""
    topology = TridentTopology()
    words = stream(topology, "w string", WORDS).parallelismHint(3)
    words.groupBy("w").aggregate("w", Longest(), "l").foreachArrow(print, name="out")
    return topology


SINK, BETWEEN = "to the driver", "between partitions"


def test_a_whole_batch_is_settled_and_nothing_of_the_ledger_is_in_its_result(slots: WithLedger) -> None:
    found = run(slots, longest()).results["out!"]
    assert found.schema.names == ["w", "l"]
    assert sorted(found.to_pydict()["l"]) == sorted(set(WORDS))


def shapes() -> TridentTopology:
    """Streams of a split, a step that catches, a stream that is read twice, and an aggregate within the plan."""
    topology = TridentTopology()
    words = stream(topology, "w string", WORDS)
    parts = words.split("w", by_number, streams={"even": "n long", "odd": "n long, w string"})
    parts.even.each("n", half, "h double").foreachArrow(print, name="even")
    parts.odd.groupBy("w").aggregate("w", Longest(), "l").each("l", str.upper, "u string").foreachArrow(
        print, name="odd"
    )
    words.each("w", not_w3, "x string", onError="skip").groupBy("x").persistentAggregate(STATE, Count(), "n", name="x")
    words.persistentAggregate(STATE, Count(), "n", name="all")
    return topology


def by_number(word: str) -> Iterator[tuple[str, Any]]:
    number = int(word[1:])
    yield ("odd", (number, word)) if number % 2 else ("even", number)


def not_w3(word: str) -> str:
    if word == "w3":
        raise ValueError(word)
    return word


def test_results_are_the_same_with_a_ledger(slots: WithLedger, on_spark: OnSpark) -> None:
    assert results(slots, shapes()) == results(on_spark, shapes())


@pytest.mark.parametrize("edge", [BETWEEN, SINK])
@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("rows lost", r"it sent \d+ rows, 0 arrived: \d+ are lost"),
        ("one row lost", r"it sent \d+ rows, \d+ arrived: 1 are lost"),
        ("rows doubled", r"it sent \d+ rows, \d+ arrived: \d+ too many"),
        ("report lost", r"it did not report how many rows it sent; \d+ rows arrived"),
        ("all doubled", r"it sent \d+ rows, \d+ arrived: \d+ too many \(its report came 2 times\)"),
    ],
)
def test_a_loss_on_an_edge_names_its_step_and_partition(
    slots: WithLedger, monkeypatch: pytest.MonkeyPatch, edge: str, what: str, said: str
) -> None:
    plant(monkeypatch, edge, Fault(what, 0))
    with pytest.raises(LedgerError, match=rf"{edge}, partition 0: {said}"):
        run(slots, longest())


def test_tuples_that_a_source_loses_are_counted(slots: WithLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = stage_inputs._rows
    monkeypatch.setattr(stage_inputs, "_reader", lambda *_: None)
    monkeypatch.setattr(stage_inputs, "_rows", lambda *given: sound(*given).limit(len(WORDS) - 3))
    with pytest.raises(LedgerError, match=r"s/0.* to s/.*: the source emitted 40 rows, 37 arrived: 3 are lost"):
        run(slots, longest())


def test_a_step_of_sparks_own_reports_at_its_end(slots: WithLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    topology = TridentTopology()
    stream(topology, "n long", range(9)).filter(expr("n > 3")).foreachArrow(print, name="out")
    assert sorted(run(slots, topology).results["out!"].to_pydict()["n"]) == [4, 5, 6, 7, 8]
    plant(monkeypatch, SINK, Fault("one row lost", 0))
    with pytest.raises(LedgerError, match=f"{SINK}, partition 0"):
        run(slots, topology)


def test_a_batch_that_lost_rows_is_tried_again_and_counted_once(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = TridentTopology()
    words = stream(topology, "w string", WORDS[:20], WORDS[20:]).each("w", str.upper, "u string")
    words.groupBy("u").persistentAggregate(STATE, Count(), "count", name="counts")
    faultless = PendingFunction.frame
    with monkeypatch.context() as planted:
        plant(planted, SINK, Fault("rows lost", 0))
        sound, first = Ledger.check, [True]

        def check(self: Ledger) -> None:
            if first:
                first.clear()
                planted.setattr(PendingFunction, "frame", faultless)
            sound(self)

        planted.setattr(Ledger, "check", check)
        with topology.start(spark, name="t", ledger=True, maxSpoutPending=1) as running:
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == Counter(word.upper() for word in WORDS)
            assert "it sent" in str(running.recentProgress)
    assert not first
