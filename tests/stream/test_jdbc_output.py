"""The verb writeJdbc: its call, its errors, and how it is explained."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from tests.support.topologies import stream
from trident import Stream, TridentTopology
from trident.base.years import LAST
from trident.errors import TopologyError
from trident.operations.upserts import Storable
from trident.plan.nodes import Each, sources_of
from trident.spouts import FixedBatchSpout

URL = "postgresql://me:hush@h/shop"
FIELDS = "id long, g string, m map<string, long>"
CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda s: s.writeJdbc("", "t"), "writeJdbc: url '': expected postgresql://user@host:5432/database"),
    (lambda s: s.writeJdbc(7, "t"), "url=7"),
    (lambda s: s.writeJdbc("mysql://h/d", "t"), "url 'mysql://h/d': expected postgresql://user@host:5432/database"),
    (lambda s: s.writeJdbc(URL, "a.b.c"), "table='a.b.c' (str): expected the name of a table or view"),
    (lambda s: s.writeJdbc(URL, "t", key="ix"), "no field 'ix'"),
    (lambda s: s.writeJdbc(URL, "t", key=[]), "name at least one field"),
    (lambda s: s.writeJdbc(URL, "t", key="m"), "field 'm' is map<string,bigint>: maps cannot be compared"),
    (lambda s: s.bestEffort().writeJdbc(URL, "t"), "and nothing that must be exact; write this on the stream before"),
    (
        lambda s: s.asChanges("g").writeJdbc(URL, "t"),
        "changes need key=, the fields that identify a row; to append each change as a tuple with a field "
        "'_change_type', write toStream().writeJdbc(...)",
    ),
    (lambda s: s.asChanges("g").writeJdbc(URL, "t", key="_change_type"), "'_change_type' holds the kind of each"),
    (lambda s: s.asChanges("g").shuffle().writeJdbc(URL, "t", key="id"), "may spread changes of a key over several"),
]


@pytest.mark.parametrize(("call", "says"), CALLS)
def test_a_wrong_call(call: Callable[[Stream], object], says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        call(stream(FIELDS))
    assert says in str(raised.value)
    assert "hush" not in str(raised.value)


def test_it_returns_the_stream_and_is_explained_without_its_password(capsys: pytest.CaptureFixture[str]) -> None:
    topology = TridentTopology()
    made = topology.newStream("s", FixedBatchSpout("id long, v long", [[]]))
    assert made.writeJdbc(URL, "shop.orders", key="id", name="rows") is made
    made.writeJdbc("env:URL", "log", name="log")
    topology.explain()
    told = capsys.readouterr().out
    assert "output rows, into the table shop.orders by id: exactly-once" in told
    assert "output log, into the table log: exactly-once" in told
    assert "hush" not in told + repr(topology) + "".join(map(repr, topology.sinks))


def test_changes_of_a_state_may_be_moved(capsys: pytest.CaptureFixture[str]) -> None:
    changes = TridentTopology().newStream("s", FixedBatchSpout("id long, op string, v long", [[]])).asChanges("op")
    assert changes.partitionBy("id").writeJdbc(URL, "t", key="id").fields == ("id", "v", "_change_type")
    changes.toTable("id").changes().shuffle().writeJdbc(URL, "t", key="id", name="of_table")


@pytest.mark.parametrize("kind", [pa.timestamp("us", "UTC"), pa.list_(pa.timestamp("us"))])
def test_a_time_that_python_does_not_know_is_not_passed_on(kind: pa.DataType) -> None:
    """A batch with it could be frozen, and no table would take it."""
    good, bad = (pa.array([at], pa.int64()) for at in (LAST, LAST + 1))
    for numbers, passes in ((good, True), (bad, False)):
        times = (
            numbers.cast(kind)
            if pa.types.is_timestamp(kind)
            else pa.ListArray.from_arrays([0, 1], numbers.cast(kind.value_type))
        )
        assert (Storable(("at",), 0).columns([times]) is not None) == passes


def test_fields_with_times_and_texts_are_checked() -> None:
    fields = "n long, at timestamp, day date, texts array<string>, m map<long, struct<a: string>>, raw array<binary>"
    topology = TridentTopology()
    topology.newStream("s", FixedBatchSpout(fields, [[]])).writeJdbc(URL, "t")
    (check,) = [source for sink in topology.sinks for source in sources_of(sink)]
    assert isinstance(check, Each) and check.inputs == ("at", "day", "texts", "m")
