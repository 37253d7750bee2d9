"""split: its streams by name, and wrong calls."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, node, stream
from trident import Count, Filter, FilterNull, Stream, TridentTopology, expr
from trident.errors import DuplicateFieldError, FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.plan import nodes


def parse(line: str) -> Iterator[tuple[str, Any]]:
    yield "errors", line


def nothing(line: str) -> None: ...


def two(a: str, b: str) -> Any: ...


class Keep(Filter):
    def isKeep(self, tuple: Any) -> bool:
        return True


STREAMS = {"orders": "id long, price double", "errors": "line string"}


@pytest.fixture
def lines() -> Stream:
    return stream("line string")


def test_streams_are_taken_by_name_and_in_order(lines: Stream) -> None:
    parsed = lines.split("line", parse, streams=STREAMS)
    assert repr(parsed) == "SplitStreams(lines/1:split(parse): orders(id bigint, price double), errors(line string))"
    assert (parsed.names, len(parsed)) == (("orders", "errors"), 2)
    orders, errors = parsed
    assert orders is parsed.orders is parsed["orders"]
    assert repr(errors) == "Stream(lines.errors/0:errors: line string)"
    assert (node(errors).number, node(errors).source) == (1, parsed._node)
    assert "orders" in dir(parsed)
    assert lines.split("line", parse, STREAMS).names == lines.split(function=parse, streams=STREAMS).names


def test_streams_of_one_split_go_on_under_names_of_their_own(lines: Stream) -> None:
    parsed = lines.split("line", parse, streams=STREAMS)
    state = parsed.errors.groupBy("line").persistentAggregate(DeclaredState(), Count(), "count")
    assert (state.name, node(state).step) == ("lines.errors.count", "lines.errors/1:persistentAggregate(Count)")
    again = lines.split("line", parse, streams=STREAMS)
    assert node(again.errors).step == "lines.errors/2:errors"


def test_a_stream_that_nobody_asks_for_is_no_end() -> None:
    topology = TridentTopology()
    parsed = topology.newDRPCStream("ask").split("args", parse, streams=STREAMS)
    answer = parsed.errors
    assert topology.requests["ask"][1] is node(answer)
    assert [type(each) for each in topology.nodes] == [nodes.RequestSource, nodes.Split, nodes.Part]


def test_a_split_is_explained_and_drawn(lines: Stream, capsys: pytest.CaptureFixture[str]) -> None:
    parsed = lines.each("line", len, "size long").split("line", parse, streams=STREAMS)
    orders, errors = parsed
    orders.merge(orders).explain()
    assert capsys.readouterr().out.splitlines() == [
        "stream lines",
        "  lines/0:newStream(FixedBatchSpout)  line string                                           transactional",
        "  lines/1:each(len)                   line string, size bigint",
        "  lines/2:split(parse)                orders(id bigint, price double), errors(line string)  of line",
        "stream lines.orders",
        "  lines.orders/0:orders  id bigint, price double  <- lines/2",
        "  lines.orders/1:merge   id bigint, price double  within ONE batch; <- lines.orders/0, lines.orders/0",
    ]
    drawn = parsed.draw("mermaid")
    assert 'n3["split(parse)<br/>of line"]' in drawn
    assert 'n4["orders<br/>id bigint, price double"]' in drawn
    assert 'n5["errors<br/>line string"]' in drawn
    assert "n3 --> n4" in drawn and "n3 --> n5" in drawn
    assert node(errors).site.location in parsed.draw()


Make = Callable[[Stream], object]

CALLS: list[tuple[Make, type[TopologyError], str]] = [
    (
        lambda s: s.split("lin", parse, streams=STREAMS),
        FieldNotFoundError,
        "lines/1:split(parse): no field 'lin'; the fields are (line string); did you mean 'line'?",
    ),
    (
        lambda s: s.split("line", parse),
        TopologyError,
        "lines/1:split(parse): name the streams; write split([inputFields,] function, streams={'name': 'field type",
    ),
    (lambda s: s.split("line", parse, streams={}), TopologyError, "split(parse): name the streams; write split("),
    (
        lambda s: s.split("line", parse, "orders"),
        TopologyError,
        "lines/1:split(parse): name the streams, not only fields; write split(",
    ),
    (
        lambda s: s.split("line", parse, streams=["orders"]),  # type: ignore[arg-type]
        TopologyError,
        "streams as a dict of names and fields, not ['orders']; write split(",
    ),
    (
        lambda s: s.split("line", parse, streams={"a b": "id long"}),
        TopologyError,
        "lines/1:split(parse): a stream cannot be named 'a b': a name has letters a to z, digits,",
    ),
    (
        lambda s: s.split("line", parse, streams={"orders": "id"}),
        TypeDeclarationError,
        "lines/1:split(parse), stream 'orders': the type of field 'id' is not declared: write it with the field, "
        "such as 'id string'",
    ),
    (
        lambda s: s.split("line", parse, streams={"orders": "id long, ID long"}),
        DuplicateFieldError,
        "lines/1:split(parse), stream 'orders': output Spark considers 'id' and 'ID' the same field",
    ),
    (
        lambda s: s.split("line", parse, streams={"orders": "id lng"}),
        TypeDeclarationError,
        "stream 'orders': cannot read the type declaration 'id lng': unknown type 'lng'; did you",
    ),
    (
        lambda s: s.split("line", expr("upper(line)"), streams=STREAMS),
        TopologyError,
        "lines/1:split(expr): it is a Spark function; use a Python function, which can send tuples to streams",
    ),
    (lambda s: s.split("line", Keep(), streams=STREAMS), TopologyError, "split(Keep): it is a Filter; use a function"),
    (lambda s: s.split("line", FilterNull(), streams=STREAMS), TopologyError, "it is a Filter; use a function"),
    (
        lambda s: s.split("line", nothing, streams=STREAMS),
        TypeDeclarationError,
        "annotated to return None, so it sends",
    ),
    (
        lambda s: s.split("line", two, streams=STREAMS),
        TopologyError,
        "two(a: str, b: str) takes the wrong arguments: it is called with one argument for each field (line)",
    ),
    (
        lambda s: s.split("line", streams=STREAMS),
        TopologyError,
        "the operation is missing; write split(",
    ),
    (
        lambda s: s.split("line", parse, streams={"names": "id long"}),
        TopologyError,
        "lines/1:split(parse): 'names' is an attribute of the object that holds the streams: choose another name",
    ),
    (lambda s: s.split("line", Count(), streams=STREAMS), TopologyError, "Count() is an aggregator: use it in"),
]


@pytest.mark.parametrize(("make", "error", "says"), CALLS)
def test_a_wrong_split(lines: Stream, make: Make, error: type[TopologyError], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        make(lines)
    assert says in str(raised.value)
    assert type(raised.value) is error
    assert "called at test_split.py:" in str(raised.value)


def test_a_stream_that_is_not_there(lines: Stream) -> None:
    parsed = lines.split("line", parse, streams=STREAMS)
    says = "lines/1:split(parse): there is no stream 'order'; the streams are orders, errors; did you mean 'orders'?"
    with pytest.raises(AttributeError) as attribute:
        _ = parsed.order
    with pytest.raises(TopologyError) as item:
        parsed["order"]
    assert str(attribute.value) == str(item.value) == says
    with pytest.raises(
        AttributeError, match="no stream 'map'; .*; map is a verb of each of these streams, such as orders"
    ):
        _ = parsed.map
