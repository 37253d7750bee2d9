"""The verb writeDelta: its call, its errors, and how it is explained."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.topologies import stream
from trident import Stream, TridentTopology
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout

FIELDS = "id long, g string, m map<string, long>, l array<long>, f double"
CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda s: s.writeDelta(""), "path='' (str): expected the folder or address of a table; write writeDelta(path, "),
    (lambda s: s.writeDelta(7), "path=7 (int)"),
    (lambda s: s.writeDelta("t", storageOptions={"a": 1}), "storageOptions: expected a mapping of strings to strings"),
    (
        lambda s: s.writeDelta("s3://b/t", storageOptions={"AWS_S3_ALLOW_UNSAFE_RENAME": "hush"}),
        "storageOptions: AWS_S3_ALLOW_UNSAFE_RENAME lets two writers create the same version of a table",
    ),
    (lambda s: s.writeDelta("t", key="ix"), "no field 'ix'"),
    (lambda s: s.writeDelta("t", key=[]), "name at least one field"),
    (lambda s: s.writeDelta("t", key="m"), "field 'm' is map<string,bigint>: maps cannot be compared"),
    (lambda s: s.writeDelta("t", key="l"), "key field 'l' is array<bigint>: Delta compares only scalar values"),
    (lambda s: s.writeDelta("t", partitionBy="f"), "partitionBy field 'f' is double: expected string, integer"),
    (lambda s: s.project("id").writeDelta("t", partitionBy="id"), "partitionBy names every field"),
    (lambda s: s.rename("id", "a b").writeDelta("t"), "field 'a b': the name of a Delta column cannot contain any of"),
    (
        lambda s: s.each("id", lambda i: None, "d array<struct<`x;y`: long>>").writeDelta("t"),
        "field 'x;y': the name of a Delta column cannot contain",
    ),
    (
        lambda s: s.each("id", lambda i: None, "d void").writeDelta("t"),
        "field 'd' is void, which Parquet cannot store",
    ),
    (lambda s: s.bestEffort().writeDelta("t"), "and nothing that must be exact; write this on the stream before"),
    (
        lambda s: s.asChanges("g").writeDelta("t"),
        "changes need key=, the fields that identify a row; to append each change as a tuple with a field "
        "'_change_type', write toStream().writeDelta(...)",
    ),
    (lambda s: s.asChanges("g").writeDelta("t", key="_change_type"), "'_change_type' holds the kind of each"),
    (lambda s: s.asChanges("g").writeDelta("t", key="id", partitionBy="_change_type"), "no field '_change_type'"),
    (lambda s: s.asChanges("g").shuffle().writeDelta("t", key="id"), "may spread changes of a key over several"),
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_wrong_call(call: Callable[[Stream], object], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(stream(FIELDS))
    assert says in str(raised.value)
    assert "hush" not in str(raised.value)


def test_it_returns_the_stream_and_is_explained_without_its_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    made = topology.newStream("s", FixedBatchSpout("id long, v long", [[]]))
    secret = {"AWS_SECRET_ACCESS_KEY": "hush"}
    assert made.writeDelta("s3://lake/orders", key="id", name="rows", storageOptions=secret) is made
    made.writeDelta("/lake/log/", name="log")
    topology.explain()
    told = capsys.readouterr().out
    assert "output rows, into the Delta table s3://lake/orders by id: exactly-once" in told
    assert "output log, into the Delta table /lake/log: exactly-once" in told
    assert "hush" not in told + repr(topology) + "".join(map(repr, topology.sinks))


def test_changes_of_a_state_may_be_moved() -> None:
    changes = TridentTopology().newStream("s", FixedBatchSpout("id long, op string, v long", [[]])).asChanges("op")
    assert changes.partitionBy("id").writeDelta("t", key="id").fields == ("id", "v", "_change_type")
    changes.toTable("id").changes().shuffle().writeDelta("t", key="id", name="of_table")
