"""Splits: each tuple that a function sends to a stream arrives there once, and no other does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.compiler.functions import CountedCalls
from tests.compiler.stage_runner import STATE, OnArrow, Slots, answered, results, rows, run, stream
from tests.compiler.test_joins import ordered, seen, tuples
from trident import Count, Function, Sum, TridentTopology
from trident.base.errors import UserFunctionError
from trident.compiler.arrow.evaluation import compile_request
from trident.compiler.stages import cut

LINES = ["1 2.5", "2 free", "", "3 4.0", "x"]
STREAMS = {"orders": "id long, price double", "errors": "line string"}


def parse(line: str) -> Iterator[tuple[str, Any]]:
    id, _, price = line.partition(" ")
    if not line:
        return
    try:
        yield "orders", (int(id), float(price))
    except ValueError:
        yield "errors", line


class Parse(Function):
    """`parse` as an object."""

    def execute(self, tuple: Any, collector: Any) -> None:
        for name, values in parse(tuple.line):
            collector.emitTo(name, values if name == "orders" else [values])


def as_list(line: str) -> list[tuple[str, Any]]:
    return list(parse(line))


def of_all(t: Any) -> Iterator[tuple[str, Any]]:
    return parse(t.line)


@pytest.mark.parametrize("function", [parse, Parse(), as_list, of_all], ids=["yield", "object", "list", "all"])
def test_what_is_sent_to_a_stream_arrives_there(engine: Slots, function: Any) -> None:
    topology = TridentTopology()
    lines = stream(topology, "line string, n long", [(line, n) for n, line in enumerate(LINES)], [])
    parsed = lines.split(*([] if function is of_all else ["line"]), function, streams=STREAMS)
    seen(parsed.orders, "orders")
    seen(parsed["errors"].each("line", len, "size long"), "errors")
    found = results(engine, topology)
    assert tuples(found, "orders") == [(1, 2.5), (3, 4.0)]
    assert tuples(found, "errors") == [("2 free", 6), ("x", 1)]
    assert results(engine, topology, batch=1) == {"orders": [], "errors": []}


def numbered(n: int) -> Iterator[tuple[str, Any]]:
    for name in ("even", "odd", "all") if n % 2 == 0 else ("odd", "all"):
        yield name, (n, None if n == 3 else {"even": "e"}.get(name, "x"))


@pytest.mark.connect
def test_streams_of_one_split_meet_again(engine: Slots) -> None:
    topology = TridentTopology()
    fields = "n long, s string"
    even, odd, every = stream(topology, "n long", range(4)).split(
        "n", numbered, streams=dict.fromkeys(("even", "odd", "all"), fields)
    )
    seen(even.merge(odd, sourceField="of"), "merged")
    seen(every.join(even, "n", "n, s, e", joinType="left").project("n, e"), "joined")
    every.groupBy("s").persistentAggregate(STATE, "n", Sum(), "sum", name="sums")
    found = results(engine, topology)
    evens = [(n, "e", "s.even") for n in (0, 2)]
    assert tuples(found, "merged") == ordered(*evens, *[(n, None if n == 3 else "x", "s.odd") for n in range(4)])
    assert tuples(found, "joined") == ordered((0, "e"), (1, None), (2, "e"), (3, None))
    assert found["sums"] == ordered((None, 3), ("x", 3))


class CountedSplit(CountedCalls):
    """Sends every word to three streams, and counts how often it was asked."""

    def __call__(self, word: str) -> Any:
        super().__call__(word)
        return [(name, word) for name in ("a", "b", "c")]


@pytest.mark.connect
def test_a_split_is_evaluated_once_however_many_read_it(engine: Slots, tmp_path: Path) -> None:
    function = CountedSplit(tmp_path / "calls")
    topology = TridentTopology()
    words = stream(topology, "word string", ["w"] * 30)
    parts = words.split("word", function, streams=dict.fromkeys("abc", "word string"))
    for name, part in zip("abc", parts, strict=True):
        part.groupBy("word").persistentAggregate(STATE, Count(), "count", name=name)
    assert results(engine, topology) == {name: [("w", 30)] for name in "abc"}
    assert function.calls == 30


def test_one_stream_alone_may_be_read(engine: Slots) -> None:
    topology = TridentTopology()
    parsed = stream(topology, "line string", LINES).split("line", parse, streams=STREAMS)
    parsed.errors.persistentAggregate(STATE, Count(), "count", name="errors")
    assert results(engine, topology) == {"errors": [(2,)]}


def lost(line: str) -> Any:
    return "order", (1, 2.0)


def short(line: str) -> Any:
    yield "orders", (7, 1.0)
    yield "orders", (1,)


def scalar(line: str) -> Any:
    return [("orders", 5)]


def mistyped(line: str) -> Any:
    yield "errors", line
    yield "orders", (1, "2.0")


def forgotten(line: str) -> Any:
    if line == "x":
        return "errors", line
    return None


def nameless(line: str) -> Any:
    yield 1, 2.0


class Returns(Function):
    def execute(self, tuple: Any, collector: Any) -> Any:
        return "orders", [1, 2.5]


class Emits(Function):
    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([1, 2.0])


class Misses(Function):
    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emitTo("error", [tuple.line])


class TooWide(Function):
    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emitTo("errors", [tuple.line, 1])


def failing(line: str) -> Any:
    raise RuntimeError("no lines today")


WRONG = [
    (
        lost,
        "lost (test_splits.py:",
        "returned a tuple for stream 'order'; the streams are orders, errors; did",
    ),
    (
        short,
        "",
        "returned stream 'orders' 1 values, (1,), but 2 are declared: (id bigint, price double); the tuple was (line=",
    ),
    (scalar, "", "returned stream 'orders' 5 where 2 values are declared: (id bigint, price double)"),
    (
        mistyped,
        "",
        "returned stream 'orders' '2.0' (str) for field 'price', which is declared as double; the tuple was "
        "(line='1 2.5')",
    ),
    (
        forgotten,
        "",
        "returned None; expected a stream's name and its values; the tuple was (line='1 2.5') (write yield",
    ),
    (
        nameless,
        "",
        "returned (1, 2.0); expected a stream's name and its values; the tuple was (line=",
    ),
    (Returns(), "", "raised TypeError: execute returned a result; it must emit its tuples: write collector.emitTo("),
    (
        Emits(),
        "",
        "raised TypeError: emit(...) names no stream; with several streams write emitTo('orders', [...]); the tuple",
    ),
    (
        Misses(),
        "",
        "raised ValueError: there is no stream 'error'; the streams are orders, errors; did",
    ),
    (TooWide(), "", "raised ValueError: emitTo('errors') got 2 value(s), expected 1: ['1 2.5', 1]"),
    (failing, "failing (test_splits.py:", "raised RuntimeError: no lines today; the tuple was (line='1 2.5')"),
]


@pytest.mark.parametrize(("function", "who", "says"), WRONG)
def test_what_cannot_be_sent_is_told_with_its_tuple(function: Any, who: str, says: str) -> None:
    check_wrong(OnArrow(), function, who, says)


@pytest.mark.spark
def test_a_worker_tells_it_too(on_spark: Slots) -> None:
    check_wrong(on_spark, *WRONG[1])


def check_wrong(slots: Slots, function: Any, who: str, says: str) -> None:
    topology = TridentTopology()
    parsed = stream(topology, "line string", LINES).split("line", function, streams=STREAMS)
    parsed.errors.persistentAggregate(STATE, Count(), "count", name="errors")
    with pytest.raises(UserFunctionError) as raised:
        run(slots, topology)
    assert f"s/1:split({getattr(function, '__name__', type(function).__name__)}): {who}" in str(raised.value)
    assert says in str(raised.value)


def test_requests_are_split_by_themselves() -> None:
    topology = TridentTopology()
    parsed = topology.newDRPCStream("ask", "line string").split("line", parse, streams=STREAMS)
    parsed.orders.aggregate("price", Sum(), "sum")
    (plan,) = cut(topology).requests
    args = pa.table({"number": pa.array([4, 5, 6]), "line": ["1 2.5", "x", "2 4.0"]})
    answer = answered(compile_request(plan), args, lambda *_: pytest.fail("no state is read"))
    assert rows(answer) == [(4, 2.5), (5, 0.0), (6, 4.0)]


def test_streams_of_a_split_stay_in_their_partitions(engine: Slots) -> None:
    topology = TridentTopology()
    numbers = stream(topology, "n long", range(8)).parallelismHint(3)
    even, odd = numbers.split("n", sent, streams=dict.fromkeys(("even", "odd"), "n long"))
    seen(even.merge(odd).each("n", Where(), "count int"), "all")
    assert tuples(results(engine, topology), "all") == [(n, 3) for n in range(8)]


def sent(n: int) -> Any:
    return ("even" if n % 2 == 0 else "odd"), n


class Where(Function):
    """Emits the number of partitions."""

    def prepare(self, context: Any) -> None:
        self.count = context.numPartitions

    def execute(self, tuple: Any, collector: Any) -> None:
        collector.emit([self.count])


def test_the_log_keeps_the_names_under_which_it_knows_a_split() -> None:
    """A batch that waits is frozen with this outline: with any other one, the next start would refuse to commit it."""
    topology = TridentTopology()
    errors = stream(topology, "line string", LINES).split("line", parse, streams=STREAMS).errors
    errors.groupBy("line").persistentAggregate(STATE, Count(), "count", name="counts")
    (group,) = cut(topology).groups
    (part,) = group.outline.parts
    assert [step.shape for step in group.outline.above(part)][2] == "errors (number 1)"
    assert part.shape == "ef00d7ed10c2c288d49b5e80"
