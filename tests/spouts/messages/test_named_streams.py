"""A RichSpout of several streams: one message on some of them, one ack for all, and wrong uses."""

from collections import Counter, deque
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.spouts.messages.test_executor import opened, planned
from trident import Count, Sum, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.base.errors import FailedException, SpoutContractError, TopologyError, TypeDeclarationError
from trident.spouts import BatchSpout, Collector, RichSpout
from trident.state import MemoryMapState
from trident.testing import crash_at, run_through
from trident.testing.local import start_local
from trident_spouts.messages.executor import MessageExecutor

LINES = {n: f"{n} {n / 2}" if n % 3 else f"{n} free" for n in range(1, 25)}


class Shop(RichSpout):
    """Reads lines: each goes to `lines`, and to `orders` or `errors`; its number is its id."""

    outputFields = {"orders": "id long, price double", "errors": "line string", "lines": "line string"}  # noqa: RUF012

    def __init__(self, lines: dict[int, str], **limits: Any) -> None:
        self.waiting, self.taken = deque(lines.items()), dict[int, str]()
        self.acked: list[int] = []
        self.failed: list[int] = []
        for name, value in limits.items():
            setattr(self, name, value)

    def open(self) -> None:
        self.waiting.extendleft(reversed(self.taken.items()))
        self.taken = {}

    def nextTuple(self, collector: Collector) -> None:
        if not self.waiting:
            return
        number, line = self.waiting.popleft()
        self.taken[number] = line
        collector.emit(line, messageId=number, stream="lines")
        text, _, price = line.partition(" ")
        if price == "free":
            collector.emit(line, messageId=number, stream="errors")
        else:
            collector.emit((int(text), float(price)), messageId=number, stream="orders")

    def ack(self, messageId: Any) -> None:
        self.acked.append(messageId)
        del self.taken[messageId]

    def fail(self, messageId: Any, reason: str) -> None:
        self.failed.append(messageId)
        self.waiting.append((messageId, self.taken.pop(messageId)))


def topology_of(spout: RichSpout, function: Any = None) -> TridentTopology:
    topology = TridentTopology()
    shop = topology.newStreams("shop", spout)
    orders = shop.orders if function is None else shop.orders.each("id", function)
    orders.persistentAggregate(MemoryMapState.opaque(), "price", Sum(), "total", name="total")
    shop["errors"].persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="errors")
    shop.lines.groupBy("line").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="lines")
    return topology


def check(running: Any, spout: Shop) -> None:
    assert running.state("total").value == sum(n / 2 for n in LINES if n % 3)
    assert running.state("errors").value == sum(n % 3 == 0 for n in LINES)
    assert dict(running.state("lines").items()) == Counter(LINES.values())
    assert not spout.waiting


@pytest.mark.parametrize("limits", [{"maxRows": 5}, {}])
def test_each_stream_has_its_tuples_and_each_message_one_ack(limits: dict[str, Any]) -> None:
    spout = Shop(LINES, **limits)
    with start_local(topology_of(spout), name="t") as running:
        running.processAllAvailable(timeout=30)
        check(running, spout)
    assert spout.acked == list(LINES) and not spout.failed and not spout.taken


@pytest.mark.spark
def test_spark_reads_the_same_streams(spark: SparkSession) -> None:
    spout = Shop(LINES, maxRows=9)
    with topology_of(spout).start(spark, name="t", ledger=True) as running:
        running.processAllAvailable(timeout=60)
        check(running, spout)
    assert spout.acked == list(LINES)


def test_a_failure_on_one_stream_fails_the_message_on_all() -> None:
    failures, spout = iter(range(2)), Shop(LINES, maxRows=8)

    def fails_twice(id: int) -> bool:
        if next(failures, None) is not None:
            raise FailedException("no")
        return True

    with start_local(topology_of(spout, fails_twice), name="t", maxSpoutPending=1) as running:
        running.processAllAvailable(timeout=30)
        check(running, spout)
    assert len(spout.failed) >= 8 and sorted(spout.acked) == list(LINES)


@pytest.mark.parametrize("point", ["emit.after", "freeze.after", "commit.state.after", "committed.after"])
def test_a_driver_that_dies_leaves_each_stream_exact(tmp_path: Path, point: str) -> None:
    spout = Shop(LINES, maxRows=7)
    with crash_at(point, 3), run_through(topology_of(spout), name="t", checkpointLocation=tmp_path) as running:
        check(running, spout)
    assert set(spout.acked) == set(LINES) and not spout.taken


def test_a_message_is_acknowledged_after_the_last_of_its_streams() -> None:
    spout = Shop({1: "1 2.5"})
    executor = opened(spout)
    plan = planned(executor, 1, None)
    assert plan["batches"] == [[1, [1]]]
    assert executor.emit(TransactionAttempt(1, 0, 1), plan).rows == 2
    assert spout.acked == []
    executor.success(1, plan)
    assert spout.acked == [1]


def test_a_second_delivery_within_a_call_is_left_out() -> None:
    class Twice(Shop):
        def nextTuple(self, collector: Collector) -> None:
            for line in ("1 2.5", "1 2.5") if self.waiting else ():
                collector.emit(line, messageId=1, stream="lines")
                collector.emit((1, 2.5), messageId=1, stream="orders")
            self.waiting.clear()

    executor = opened(Twice({1: "1 2.5"}))
    plan = planned(executor, 1, None)
    assert executor.emit(TransactionAttempt(1, 0, 1), plan).rows == 2


def emitting(*emissions: tuple[Any, str | None], fields: Any = None) -> MessageExecutor:
    class Emits(Shop):
        outputFields = fields or Shop.outputFields

        def nextTuple(self, collector: Collector) -> None:
            for at, (values, stream) in enumerate(emissions):
                collector.emit(values, messageId=at, stream=stream)

    return opened(Emits({}))


@pytest.mark.parametrize(
    ("emission", "fields", "expected"),
    [
        (
            ("x", "ordres"),
            None,
            "there is no stream 'ordres'; the streams are orders, errors, lines; did you mean 'orders'",
        ),
        (("x", None), None, r"the stream is missing; write emit\(..., stream='orders'\)"),
        (("x", "errors"), "word string", "there is no stream 'errors'; the streams are default"),
        (("x", "orders"), None, r"Emits.nextTuple, stream 'orders', row 0: expected a row of 2 fields"),
        ((7, "lines"), None, r"stream 'lines', row 0, field 'line': expected string, got 7 \(int\)"),
    ],
)
def test_a_wrong_emission_is_refused(emission: tuple[Any, str | None], fields: Any, expected: str) -> None:
    with pytest.raises(SpoutContractError, match=expected):
        planned(emitting(emission, fields=fields), 1, None)


def test_default_is_the_stream_of_an_emission_that_names_none() -> None:
    executor = emitting(("a", None), ("b", "rest"), fields={"default": "word string", "rest": "word string"})
    table = executor.emit(TransactionAttempt(1, 0, 1), planned(executor, 1, None)).arrow()
    assert table.to_pydict() == {"place": [0, 1], "0.word": ["a", None], "1.word": [None, "b"]}


def test_a_spout_says_which_verb_begins_its_streams() -> None:
    with pytest.raises(
        TopologyError, match=r"several streams \(orders, errors, lines\); call newStreams\(name, spout\)"
    ):
        TridentTopology().newStream("shop", Shop({}))

    class One(Shop):
        outputFields = "word string"

    with pytest.raises(TopologyError, match=r"declares one stream; call newStream\(name, spout\)"):
        TridentTopology().newStreams("one", One({}))


@pytest.mark.parametrize(
    ("declared", "kind", "expected"),
    [
        ({"orders": "id"}, TypeDeclarationError, "."),
        ({}, TopologyError, "."),
        ({"a/b": "id long"}, TopologyError, "a/b"),
        ({"names": "id long"}, TopologyError, "'names' is an attribute"),
    ],
)
def test_a_wrong_declaration_is_refused(declared: Any, kind: type, expected: str) -> None:
    class Wrong(Shop):
        outputFields = declared

    with pytest.raises(kind, match=expected):
        TridentTopology().newStreams("shop", Wrong({}))


def test_only_a_rich_spout_has_several_streams() -> None:
    class Batches(BatchSpout):
        outputFields = {"a": "id long"}  # type: ignore[assignment]  # noqa: RUF012

        def emitBatch(self, batchId: Any) -> Any: ...

    with pytest.raises(TopologyError, match="only a RichSpout emits on several streams"):
        TridentTopology().newStreams("shop", Batches())  # type: ignore[arg-type]


def test_explain_names_the_streams(capsys: pytest.CaptureFixture[str]) -> None:
    topology_of(Shop({})).explain()
    text = capsys.readouterr().out
    assert "orders(id bigint, price double), errors(line string), lines(line string)" in text
    assert "stream shop.orders" in text
