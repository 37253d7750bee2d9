"""The verb writeKafka: its call, its errors, and how it is explained."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Row

from tests.support.topologies import stream
from trident import Stream, TridentTopology
from trident.errors import TopologyError
from trident.operations.kafka_messages import Deliverable
from trident.plan.nodes import Each, WriteKafka

CALLS: list[tuple[Callable[[Stream], object], str]] = [
    (lambda s: s.writeKafka("", "t"), "lines/1:writeKafka: bootstrapServers='' (str): expected 'host:port'"),
    (
        lambda s: s.writeKafka("h:1", "__consumer_offsets"),
        "topic='__consumer_offsets' (str), which is an internal topic of the brokers: expected",
    ),
    (lambda s: s.writeKafka("h:1", "a b"), "topic='a b' (str): expected the name of a topic, such as 'orders'"),
    (lambda s: s.writeKafka("h:1", "t"), "no field 'value' for value=; the fields are (line string, n bigint,"),
    (
        lambda s: s.writeKafka("h:1", "t", value="n"),
        "value: field 'n' is bigint: expected string or binary; create one, for example "
        "with each(expr('to_json(struct(*))'), 'val",
    ),
    (lambda s: s.writeKafka("h:1", "t", value="line", key="lin"), "no field 'lin' for key=; the fields are (line str"),
    (lambda s: s.writeKafka("h:1", "t", value="line, n"), "value='line, n': expected one field"),
    (lambda s: s.writeKafka("h:1", "t", value="line", key=7), "key=7"),  # type: ignore[arg-type]
    (
        lambda s: s.writeKafka("h:1", "t", value="line", headers="line"),
        "headers: field 'line' is string: expected array<struct<key: string, value: binary>>",
    ),
    (lambda s: s.writeKafka("h:1", "t", value="line", topicField="n"), "topicField: field 'n' is bigint: expected str"),
    (
        lambda s: s.writeKafka("h:1", "t", value="line", guarantee="exactlyOnce"),  # type: ignore[arg-type]
        "guarantee='exactlyOnce' is not one of 'exactly-once', 'at-least-once'",
    ),
    (
        lambda s: s.writeKafka("h:1", "t", value="line", options={"enable.idempotence": False}),
        "options: 'enable.idempotence' is set by writeKafka itself; use guarantee=",
    ),
    (
        lambda s: s.writeKafka("h:1", "t", value="line", options={"linger.ms": None}),  # type: ignore[dict-item]
        "options: expected names and values of options, got 'linger.ms': a NoneType",
    ),
    (
        lambda s: s.bestEffort().writeKafka("h:1", "t", value="line"),
        "and nothing that must be exact; write this on the stream before it",
    ),
]


@pytest.fixture
def s() -> Stream:
    return stream("line string, n long, h array<struct<key: string, value: binary>>")


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_wrong_call(s: Stream, call: Callable[[Stream], object], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(s)
    assert says in str(raised.value)


def test_it_returns_the_stream_and_is_explained_without_its_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    made = stream("line string, h array<struct<key: string, value: binary>>", topology=topology)
    options = {"sasl.password": "hush"}
    assert made.writeKafka("h:1", "t", value="line", key="line", headers="h", options=options, name="out") is made
    made.writeKafka("h:1", "t", value="line", guarantee="at-least-once", name="second")
    topology.explain()
    told = capsys.readouterr().out
    assert "output out, into the topic t: exactly-once" in told
    assert "output second, into the topic t: at-least-once" in told
    assert "hush" not in told + repr(topology) + "".join(map(repr, topology.sinks))


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.mark.parametrize("topic", ["", "a b", ".", "..", "x" * 250, "t\n", "a/b", "ä", "__consumer_offsets"])
def test_a_tuple_that_names_no_topic_is_an_error_in_its_batch(topic: str) -> None:
    """No topic of this name can be created: a frozen batch could never be written."""
    check = Deliverable("t", None)
    with pytest.raises(ValueError, match=r"topicField 't' is .*, which is .* topic.*: expected 1 to 249 letters"):
        check(topic)
    assert check.columns([pa.array(["a", None, topic])]) is None


@pytest.mark.parametrize("headers", [[None], [{"key": None, "value": b"v"}], [{"key": "a", "value": b""}, None]])
def test_a_header_without_a_key_is_an_error_in_its_batch(headers: Any) -> None:
    check = Deliverable(None, "h")
    rows = [each and Row(**each) for each in headers]
    with pytest.raises(ValueError, match="headers 'h' has a .*: expected a key in each header"):
        check(rows)
    assert check.columns([pa.array([[], headers], HEADERS)]) is None


def test_what_a_topic_takes_passes_unchanged() -> None:
    topics, headers = ["a", None, "A.b_c-1"], [[Row(key="k", value=None), Row(key="", value=b"")], None, []]
    check = Deliverable("t", "h")
    assert check.fields == ("t", "h")
    assert [check(*each) for each in zip(topics, headers, strict=True)] == list(zip(topics, headers, strict=True))
    columns = [pa.array(topics), pa.array([headers[0] and [row.asDict() for row in headers[0]], None, []], HEADERS)]
    assert check.columns(columns) == columns


def test_topics_and_headers_are_checked_before_the_batch_is_frozen() -> None:
    topology = TridentTopology()
    fields = "value string, t string, h array<struct<key: string, value: binary>>"
    written = stream(fields, topology=topology)
    written.writeKafka("h:1", "t", topicField="t", headers="h", name="both")
    written.writeKafka("h:1", "t", headers="h", name="headers")
    written.writeKafka("h:1", "t", name="neither")
    both, headers, neither = (sink.source for sink in topology.sinks if isinstance(sink, WriteKafka))
    assert [(each.inputs, each.function.target) for each in (both, headers) if isinstance(each, Each)] == [
        (("t", "h"), Deliverable("t", "h")),
        (("h",), Deliverable(None, "h")),
    ]
    assert neither is written._node
