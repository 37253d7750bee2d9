"""Windows: their configurations and verbs, and wrong calls."""

import datetime
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.topologies import DeclaredState, stream
from trident import (
    ChangeStream,
    Count,
    EarlyStream,
    MapGet,
    SessionWindow,
    SlidingCountWindow,
    SlidingDurationWindow,
    SlidingEventTimeWindow,
    Stream,
    Sum,
    TridentTopology,
    TumblingCountWindow,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
)
from trident.base.spark_types import ddl
from trident.compiler.states.shapes import shape_of
from trident.errors import ArgumentsError, DuplicateNameError, FieldNotFoundError, TopologyError, TypeDeclarationError
from trident.state import MemoryMapState

FIELDS = "word string, at timestamp, n long"
HOUR = TumblingEventTimeWindow("1 hour", "at")


class Untyped:
    def init(self): ...  # type: ignore[no-untyped-def]

    def reduce(self, curr, tuple):
        return curr  # type: ignore[no-untyped-def]


class Emits:
    outputType = "string, long"

    def init(self, batchId: int, collector: Any) -> None: ...

    def aggregate(self, val: Any, tuple: Any, collector: Any) -> None: ...

    def complete(self, val: Any, collector: Any) -> None: ...


class Narrow(Emits):
    def aggregate(self, val: Any, tuple: Any) -> None: ...  # type: ignore[override]


def source() -> Stream:
    return stream(FIELDS, name="s")


CONFIGS: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: SlidingCountWindow(3, 5),
        "SlidingCountWindow: slide 5 is more than length 3: the tuples between two windows would be in none",
    ),
    (lambda: TumblingCountWindow(0), "TumblingCountWindow: length=0: expected a whole number of at least 1"),
    (lambda: SlidingCountWindow(3, 0), "SlidingCountWindow: slide=0: expected a whole number of at least 1"),
    (lambda: TumblingCountWindow(2.5), "length=2.5: expected a whole number"),  # type: ignore[arg-type]
    (lambda: TumblingCountWindow(True), "length=True: expected a whole number"),
    (
        lambda: TumblingDurationWindow("5 parsecs"),
        "length='5 parsecs' is not a duration; write '5 minutes', '5m', a number of seconds or a timedelta",
    ),
    (lambda: TumblingDurationWindow(0), "length=0: expected a positive duration"),
    (lambda: TumblingDurationWindow("-1 second"), "length='-1 second': expected a positive duration"),
    (
        lambda: SlidingDurationWindow("1 minute", "2 minutes"),
        "slide 2 minutes is more than length 1 minute: the tuples between two windows would be in none",
    ),
    (
        lambda: SlidingEventTimeWindow("30 days", "7 seconds", "at"),
        "a length of 30 days with a slide of 7 seconds has 2,592,000 panes of 1 second; the limit is 10,000: choose",
    ),
    (lambda: TumblingEventTimeWindow("1 hour", "at", lateness=-1), "lateness=-1: expected a non-negative duration"),
    (lambda: SessionWindow("0 seconds", "at"), "SessionWindow: gap='0 seconds': expected a positive duration"),
    (lambda: SessionWindow("1 hour", 3), "timestampField=3: expected the name of a timestamp field"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("make", "message"), CONFIGS, ids=range(len(CONFIGS)))
def test_a_window_that_cannot_be_is_refused_where_it_is_made(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(TopologyError) as caught:
        make()
    assert message in str(caught.value)
    assert "[called at test_window.py:" in str(caught.value)


CALLS: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (
        lambda: source().window(3, Count(), "n"),  # type: ignore[arg-type]
        TopologyError,
        "s/1:window: 3 is not a window; give TumblingCountWindow(3), TumblingDurationWindow('5 seconds'), ",
    ),
    (lambda: source().tumblingWindow(0, Count(), "c"), TopologyError, "TumblingCountWindow: length=0"),
    (lambda: source().slidingWindow("5 seconds", "6 seconds", Count(), "c"), TopologyError, "slide 6 seconds is more"),
    (
        lambda: source().window(HOUR, "nn", Sum(), "c"),
        FieldNotFoundError,
        "s/1:window(Sum): no field 'nn'; the fields are (word string, at timestamp, n bigint); did you mean 'n'?",
    ),
    (
        lambda: source().window(TumblingEventTimeWindow("1 hour", "time"), Count(), "c"),
        FieldNotFoundError,
        "s/1:window(Count): no field 'time' to go by; the fields are",
    ),
    (
        lambda: source().window(TumblingEventTimeWindow("1 hour", "n"), Count(), "c"),
        TypeDeclarationError,
        "field 'n' is bigint, but a window needs a timestamp or timestamp_ntz; create one first, such as "
        ".each({'time': F.timestamp_millis('n')}), with `from trident import functions as F`",
    ),
    (
        lambda: source().window(TumblingEventTimeWindow("1 hour", "word"), Count(), "c"),
        TypeDeclarationError,
        ".each('word', expr('to_timestamp(word)'), 'time timestamp')",
    ),
    (
        lambda: stream("`the day` date").window(TumblingEventTimeWindow("1 hour", "the day"), Count(), "c"),
        TypeDeclarationError,
        ".each('the day', expr('cast(`the day` as timestamp)'), 'at timestamp')",
    ),
    (
        lambda: stream("at double").window(TumblingEventTimeWindow("1 hour", "at"), Count(), "c"),
        TypeDeclarationError,
        ".each({'time': F.timestamp_seconds('at')}), with `from trident import functions as F`",
    ),
    (
        lambda: stream("at boolean").window(TumblingEventTimeWindow("1 hour", "at"), Count(), "c"),
        TypeDeclarationError,
        "field 'at' is boolean, but a window needs a timestamp or timestamp_ntz; create one first",
    ),
    (lambda: source().window(HOUR, Count()), TopologyError, "name the output field; write window(config, [stateFac"),
    (lambda: source().window(HOUR, "n", "c"), TopologyError, "the operation must be a function or object"),
    (
        lambda: source().window(HOUR, len, "c"),
        TopologyError,
        "function 'len' is not an aggregator; give an aggregator: one with init(tuple), combine(a, b) and zero()",
    ),
    (lambda: source().window(HOUR, Count, "c"), TopologyError, "Count is a class; give an instance of it, Count()"),
    (lambda: source().window(HOUR, "n", Untyped(), "c"), TypeDeclarationError, "the type of output field 'c'"),
    (
        lambda: source().window(HOUR, "word", Emits(), "a, b, c"),
        TypeDeclarationError,
        "its outputType 'string, long' has 2 types for 3 output fields",
    ),
    (
        lambda: source().window(HOUR, "word", Narrow(), "a, b"),
        TopologyError,
        "aggregate is called with the value, one TridentTuple and a collector",
    ),
    (
        lambda: source().window(HOUR, Count(), "windowStart"),
        TopologyError,
        "output field 'windowStart' is already a field of the window's results",
    ),
    (
        lambda: stream("windowStart string, at timestamp").groupBy("windowStart").window(HOUR, Count(), "c"),
        TopologyError,
        "field 'windowStart' is added by the window: rename the stream's field first, with project or each",
    ),
    (
        lambda: source().window(HOUR, MemoryMapState.opaque(ttlSecs=9), Count(), "c"),
        TopologyError,
        "has ttlSecs, but a window needs its entries until it is complete",
    ),
    (
        lambda: source().window(HOUR, Count(), "c", stateFactory="redis"),
        TopologyError,
        "'redis' is not a state factory: give MemoryMapState.opaque(), RedisMapState.opaque(url) or similar; write ",
    ),
    (lambda: source().window(HOUR, Count(), "c", keepFor="long"), TopologyError, "keepFor='long' is not a duration"),
    (
        lambda: source().tumblingWindow(3, Count(), "c", keepFor="1 hour"),
        TopologyError,
        "keepFor= keeps results in the state, but this state holds tuples",
    ),
    (
        lambda: source().tumblingWindow(3, Count(), "c").late(),
        TopologyError,
        "TumblingCountWindow(3) has no late tuples",
    ),
    (
        lambda: source().tumblingWindow("3 seconds", Count(), "c").late(),
        TopologyError,
        "s/2:late: TumblingDurationWindow('3 seconds') has no late tuples: only event-time windows have",
    ),
    (
        lambda: source().tumblingWindow(3, Count(), "c").state(),
        TopologyError,
        "state 's.c' holds waiting tuples, not results: store the results in another state,",
    ),
    (
        lambda: source().tumblingWindow(3, Count(), "c").watermark(),
        TopologyError,
        "TumblingCountWindow(3) counts tuples and has no watermark",
    ),
    (
        lambda: source().window(HOUR, Count(), "c").watermark().newValuesStream(),
        TopologyError,
        "state 's.c.watermark' is a watermark and has no stream of new values",
    ),
    (lambda: source().window(HOUR, Count(), "c", name="_c"), TopologyError, "_c"),
    (
        lambda: TridentTopology().newDRPCStream("f").tumblingWindow(3, Count(), "c"),
        TopologyError,
        "DRPC requests cannot enter a window; they read states with stateQuery",
    ),
    (
        lambda: source().tumblingWindow(1.5, Count(), "c"),
        TopologyError,
        "s/1:tumblingWindow: length=1.5: expected a whole number of tuples, or a duration with its unit, '1.5 "
        "seconds' [",
    ),
    (
        lambda: source().slidingWindow("1 minute", 2.0, Count(), "c"),
        TopologyError,
        "slide=2.0: expected a whole number of tuples, or a duration with its unit, '2 seconds'",
    ),
    (
        lambda: source().slidingWindow(5, "2 seconds", Count(), "c"),
        TopologyError,
        "s/1:slidingWindow: length=5 and slide='2 seconds': expected two numbers of tuples, or two durations such",
    ),
    (
        lambda: source().tumblingWindow(3, max, "c"),
        TopologyError,
        "function 'max' is not an aggregator; give Max(), or an aggregator: one with init(tuple)",
    ),
    (
        lambda: source().tumblingWindow(3, Count(), "c", slide=2),  # type: ignore[call-arg]
        ArgumentsError,
        "s/1:tumblingWindow: there is no argument 'slide'; tumblingWindow takes length, stateFactory, ",
    ),
    (
        lambda: source().window(HOUR, Count(), "c", emit="early"),  # type: ignore[call-overload]
        TopologyError,
        "emit='early': expected 'final', or 'changes' for results before a window is complete",
    ),
    (
        lambda: source().slidingWindow(3, 2, Count(), "c", emit="changes"),
        TopologyError,
        "emit='changes' needs windows by time: the results of SlidingCountWindow(3, 2) do not",
    ),
    (
        lambda: source().window(HOUR, Count(), "_change_type", emit="changes"),
        TopologyError,
        "output field '_change_type' is already a field of the window's results",
    ),
    (
        lambda: source().window(HOUR, Count(), "c", emit="changes").state().changes(),
        TopologyError,
        "a window by time returns the changes of its results with emit='changes'",
    ),
    (
        lambda: source().window(HOUR, Count(), "c", emit="changes").aggregate(Count(), "n"),
        AttributeError,
        "a stream of changes has no verb 'aggregate'",
    ),
    (lambda: source().windows(3, Count(), "c"), AttributeError, "did you mean 'window'?"),
    (lambda: source().groupBy("word").slideWindow(3, 1, Count(), "c"), AttributeError, "slidingWindow"),
]


@pytest.mark.parametrize(("call", "kind", "message"), CALLS, ids=range(len(CALLS)))
def test_a_wrong_call_says_what_came_and_what_is_accepted(
    call: Callable[[], Any], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert message in str(caught.value)


def test_two_windows_of_one_name_are_refused() -> None:
    words = source()
    words.tumblingWindow(3, Count(), "c")
    with pytest.raises(DuplicateNameError, match=r"state 's\.c' is already updated by s/1:tumblingWindow\(Count\)"):
        words.tumblingWindow(4, Count(), "c")
    words.tumblingWindow(4, Count(), "c", name="fours")


def test_the_ways_to_say_a_window() -> None:
    state = DeclaredState()
    assert ddl(source().tumblingWindow(3, state, "word", Emits(), "a, b").schema) == "a string, b bigint"
    assert ddl(source().slidingWindow(3, 1, "n", Sum(), "total").schema) == "total bigint"
    grouped = source().groupBy("word").window(config=HOUR, aggregator=Count(), outputFields="c", stateFactory=state)
    assert ddl(grouped.schema) == "windowStart timestamp, windowEnd timestamp, word string, c bigint"
    assert grouped.state().schema.names == ["windowStart", "word", "c"]
    grouped.groupBy("word").persistentAggregate(state, "c", Sum(), "total")
    same = [TumblingEventTimeWindow(length, "at") for length in (datetime.timedelta(hours=1), 3600)]
    assert same == [HOUR, HOUR]
    assert TumblingEventTimeWindow(3600, "at", lateness=1) != HOUR


def test_a_query_looks_results_up_by_the_start_and_the_group() -> None:
    topology = TridentTopology()
    windows = stream(FIELDS, topology=topology).groupBy("word").window(HOUR, Count(), "c")
    asked = topology.newDRPCStream("f", "word string")
    with pytest.raises(TopologyError, match=r"its key is \(windowStart timestamp, word string\)"):
        asked.stateQuery(windows.state(), "word", MapGet(), "c")


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (TumblingEventTimeWindow(3600, "at", lateness=9), "Count in TumblingEventTimeWindow(1 hour by at)"),
        (SlidingDurationWindow("90 seconds", 30), "Count in SlidingDurationWindow(90 seconds, 30 seconds)"),
        (SlidingCountWindow(3, 2), "Count in SlidingCountWindow(3, 2)"),
        (SessionWindow("1 day", "at", lateness="1 hour"), "Count in SessionWindow(1 day by at)"),
    ],
)
def test_a_state_knows_which_window_it_belongs_to_but_not_how_late_one_may_be(config: Any, name: str) -> None:
    (window,) = source().window(config, Count(), "c")._ends()
    assert shape_of(window.source).combine.name == name  # type: ignore[attr-defined]


@pytest.mark.parametrize("grouped", [True, False])
@pytest.mark.parametrize("config", [HOUR, SlidingDurationWindow("90 seconds", 30), SessionWindow("1 day", "at")])
def test_early_results_are_changes_that_begin_with_the_bounds(config: Any, grouped: bool) -> None:
    words = source().groupBy("word") if grouped else source()
    early = words.window(config, Count(), "c", emit="changes")
    group = "word string, " if grouped else ""
    assert ddl(early.schema) == f"windowStart timestamp, windowEnd timestamp, {group}c bigint, _change_type string"
    assert isinstance(early, EarlyStream) and isinstance(early.filter("c", lambda c: c > 1), ChangeStream)
    assert early.watermark().name == "s.c.watermark"
    (window,) = early._ends()
    assert shape_of(window.source).combine.name == f"Count in {config.meaning}, emit changes"  # type: ignore[attr-defined]
    early.shuffle().toTable("windowStart")  # a batch has each row once, in whichever order


def test_late_tuples_of_early_results_are_tuples() -> None:
    assert type(source().window(HOUR, Count(), "c", emit="changes").late()) is Stream
    tumbled: EarlyStream = source().tumblingWindow("1 hour", Count(), "c", emit="changes")
    assert isinstance(tumbled, EarlyStream)
    assert isinstance(
        source().groupBy("word").slidingWindow("1 hour", "1 minute", Count(), "d", emit="changes"), EarlyStream
    )
