"""Wrong calls that Trident refuses, and those that it lets pass, verb by verb: all fail in the line that makes them.

The messages of single verbs are tested beside these verbs; here each verb takes fields, and each names the right one.
"""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, split, stream
from trident import (
    Count,
    FilterNull,
    FirstN,
    MapGet,
    StateUpdater,
    Stream,
    Sum,
    TridentState,
    TridentTopology,
    TumblingEventTimeWindow,
)
from trident.errors import DuplicateFieldError, FieldNotFoundError, TopologyError

STATE = DeclaredState()


class Updater(StateUpdater):
    def updateState(self, state: Any, tuples: Any, collector: Any) -> None: ...


class Reducer:
    def init(self, collector: Any) -> Any: ...

    def execute(self, state: Any, streamIndex: int, tuple: Any, collector: Any) -> None: ...

    def complete(self, state: Any, collector: Any) -> None: ...


class Given:
    """Two streams of a topology, and a state of it."""

    def __init__(self) -> None:
        self.topology = TridentTopology()
        self.s = stream("line string, total long, at timestamp", "lines", self.topology)
        self.other = stream("line string, m long", "other", self.topology)

    @property
    def counts(self) -> TridentState:
        return self.other.groupBy("line").persistentAggregate(STATE, Count(), "count", name="counts")


Call = Callable[[Given, Stream], object]

UNKNOWN: dict[str, Call] = {
    "each": lambda g, s: s.each("totl", split, "w string"),
    "each of a filter": lambda g, s: s.each("totl", FilterNull()),
    "filter": lambda g, s: s.filter("totl", lambda n: True),
    "map": lambda g, s: s.map("totl", str, "w string"),
    "flatMap": lambda g, s: s.flatMap("totl", split, "w string"),
    "peek": lambda g, s: s.peek("totl", print),
    "project": lambda g, s: s.project("line", "totl"),
    "groupBy": lambda g, s: s.groupBy("totl"),
    "partitionBy": lambda g, s: s.partitionBy("totl"),
    "partition": lambda g, s: s.partition("totl", lambda n, count: 0),
    "aggregate": lambda g, s: s.aggregate("totl", Sum(), "sum"),
    "aggregate of groups": lambda g, s: s.groupBy("line").aggregate("totl", Sum(), "sum"),
    "partitionAggregate": lambda g, s: s.partitionAggregate("totl", Sum(), "sum"),
    "partitionAggregate of groups": lambda g, s: s.groupBy("line").partitionAggregate("totl", Sum(), "sum"),
    "chainedAgg": lambda g, s: s.chainedAgg().aggregate("totl", Sum(), "sum"),
    "minBy": lambda g, s: s.minBy("totl"),
    "maxBy": lambda g, s: s.maxBy("totl"),
    "FirstN": lambda g, s: s.applyAssembly(FirstN(3, "totl")),
    "stateQuery": lambda g, s: s.stateQuery(g.counts, "totl", MapGet(), "count"),
    "partitionPersist": lambda g, s: s.partitionPersist(
        STATE, "totl", Updater(), keyFields="line", valueType="long", name="p"
    ),
    "partitionPersist by key": lambda g, s: s.partitionPersist(
        STATE, "total", Updater(), keyFields="totl", valueType="long", name="p"
    ),
    "persistentAggregate": lambda g, s: s.persistentAggregate(STATE, "totl", Sum(), "sum"),
    "persistentAggregate of groups": lambda g, s: s.groupBy("line").persistentAggregate(STATE, "totl", Sum(), "sum"),
    "tumblingWindow": lambda g, s: s.tumblingWindow(3, "totl", Sum(), "sum"),
    "slidingWindow": lambda g, s: s.slidingWindow("1 hour", "1 minute", "totl", Sum(), "sum"),
    "window": lambda g, s: s.window(TumblingEventTimeWindow("1 hour", "at"), "totl", Sum(), "sum"),
    "join": lambda g, s: s.join(g.other, "totl", otherKeys="m"),
    "join of the other": lambda g, s: g.other.join(s, "m", otherKeys="totl"),
    "join of n": lambda g, s: g.topology.join([g.other, s], ["m", "totl"]),
    "multiReduce": lambda g, s: g.topology.multiReduce([g.other, s], ["m", "totl"], Reducer(), "n long"),
    "split": lambda g, s: s.split("totl", split, streams={"a": "w string"}),
    "writeParquet": lambda g, s: s.writeParquet("/data/x", partitionBy="totl"),
}


@pytest.mark.parametrize("verb", UNKNOWN)
def test_an_unknown_field_is_refused_with_those_there_are_and_the_likely_one(verb: str) -> None:
    given = Given()
    with pytest.raises(FieldNotFoundError) as raised:
        UNKNOWN[verb](given, given.s)
    said = str(raised.value)
    assert (
        "'totl'" in said and "the fields are (line string, total bigint, at timestamp); did you mean 'total'?" in said
    )
    assert said.startswith(("lines", "other-lines")) and "called at test_what_trident_checks.py:" in said


TWICE: dict[str, Call] = {
    "each": lambda g, s: s.each("line", split, "total long"),
    "each, two of its own": lambda g, s: s.each("line", lambda line: (1, 2), "a long, a long"),
    "map": lambda g, s: s.map("line", lambda line: (1, 2), "a long, a long"),
    "stateQuery": lambda g, s: s.stateQuery(g.counts, "line", MapGet(), "total"),
    "aggregate of groups": lambda g, s: s.groupBy("line").aggregate("total", Sum(), "line"),
    "persistentAggregate of groups": lambda g, s: s.groupBy("line").persistentAggregate(STATE, Count(), "line"),
    "a chain's members": lambda g, s: s.chainedAgg().aggregate("total", Sum(), "n").aggregate(Count(), "n"),
    "a chain's member and group": lambda g, s: s.groupBy("line").chainedAgg().aggregate(Count(), "line"),
    "join": lambda g, s: s.join(s.project("line", "total"), "line"),
    "merge": lambda g, s: s.merge(s, sourceField="at"),
    "windowStart": lambda g, s: s.window(TumblingEventTimeWindow("1 hour", "at"), Count(), "windowStart"),
    "a spout's": lambda g, s: stream("a long, a long"),
}


@pytest.mark.parametrize("verb", TWICE)
def test_a_field_that_would_be_there_twice_is_refused(verb: str) -> None:
    given = Given()
    with pytest.raises(TopologyError, match="already|is given twice|is named twice") as raised:
        TWICE[verb](given, given.s)
    assert isinstance(raised.value, DuplicateFieldError) or verb == "windowStart"


LETS_PASS: dict[str, tuple[Call, str]] = {
    "merge of other numbers of fields": (
        lambda g, s: s.merge(g.other),
        "lines-other/0:merge: stream 2 has 2 fields: (line string, m bigint), but stream 1 has (line string, total",
    ),
    "merge of other types": (
        lambda g, s: s.project("line").merge(g.other.project("m")),
        "stream 2 has other types: (m bigint), but stream 1 has (line string); a merge matches fields by position",
    ),
    "join by other numbers of keys": (
        lambda g, s: s.join(g.other, "line, total", otherKeys="line"),
        "the streams have 2 and 1 keys, ('line', 'total') and ('line',)",
    ),
    "join with keys for one of two": (
        lambda g, s: g.topology.join([s, g.other], ["line"]),
        "a join of 2 streams needs the key fields of each, [keys1, keys2], not ['line']",
    ),
    "join of other numbers of fields": (
        lambda g, s: s.join(g.other, "line", "a, b"),
        "outputFields names 2 fields (a, b) for 4: (line string, total bigint, at timestamp, m bigint)",
    ),
    "a stream's name twice": (
        lambda g, s: stream("a long", "lines", g.topology),
        "lines/0:newStream: a stream of this name already begins at",
    ),
    "a global combiner with two outputs": (
        lambda g, s: s.aggregate("total", Sum(), "a, b"),
        "an aggregator returns one field, not 2 (a, b)",
    ),
    "a persistent one with two outputs": (
        lambda g, s: s.persistentAggregate(STATE, "total", Sum(), "a, b"),
        "an aggregator returns one field, not 2 (a, b)",
    ),
    "a window of length 0": (
        lambda g, s: s.tumblingWindow(0, Count(), "n"),
        "length=0: expected a whole number of at least 1",
    ),
    "a slide beyond the length": (
        lambda g, s: s.slidingWindow(2, 3, Count(), "n"),
        "slide 3 is more than length 2: the tuples between two windows would be in none",
    ),
    "groupBy of nothing": (lambda g, s: s.groupBy(), "name at least one field; the fields are (line string, total"),
    "a chain of nothing": (
        lambda g, s: s.chainedAgg().chainEnd(),
        "the chain has no member; write chainedAgg().aggregate(...)",
    ),
    "a query by other keys than the state's": (
        lambda g, s: s.stateQuery(g.counts, "total", MapGet(), "n"),
        "state 'counts' cannot be queried by (total bigint): its key is (line string)",
    ),
    "requests mixed with batches": (
        lambda g, s: s.join(g.topology.newDRPCStream("f"), "line", otherKeys="args"),
        "cannot combine requests of DRPC function 'f' with batches of lines",
    ),
    "an unknown mode": (
        lambda g, s: s.join(g.other, "line", mode="presrve"),  # type: ignore[arg-type]
        "unknown mode 'presrve'; expected 'compact' or 'preserve'; did you mean 'preserve'?",
    ),
}


@pytest.mark.parametrize("wrong", LETS_PASS)
def test_what_trident_notices_late_or_never_is_refused_in_its_line(wrong: str) -> None:
    given = Given()
    call, says = LETS_PASS[wrong]
    with pytest.raises(TopologyError) as raised:
        call(given, given.s)
    assert says in str(raised.value)
    assert "called at test_what_trident_checks.py:" in str(raised.value) or wrong == "a stream's name twice"
