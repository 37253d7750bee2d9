"""The calls of windowJoin: what they give, and what they say to wrong ones; joins behind two windows."""

from collections.abc import Callable
from typing import Any

import pytest

from trident import (
    Count,
    JoinedStream,
    SessionWindow,
    SlidingEventTimeWindow,
    Stream,
    TridentTopology,
    TumblingCountWindow,
    TumblingDurationWindow,
    TumblingEventTimeWindow,
)
from trident.errors import DuplicateFieldError, TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

HOUR = TumblingEventTimeWindow("1 hour", "at", lateness="1 minute")


@pytest.fixture
def both() -> tuple[Stream, Stream]:
    topology = TridentTopology()
    return (
        topology.newStream("views", FixedBatchSpout("ad long, at timestamp, user string", [])),
        topology.newStream("clicks", FixedBatchSpout("ad long, clicked timestamp, naive timestamp_ntz", [])),
    )


def test_the_bounds_come_first_then_the_keys_then_the_other_fields(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    joined = views.windowJoin(clicks, "ad", HOUR, otherTimestampField="clicked", joinType="full", name="w")
    assert isinstance(joined, JoinedStream)
    assert joined.fields == ("windowStart", "windowEnd", "ad", "at", "user", "clicked", "naive")
    assert joined.late("right").fields == ("ad", "clicked", "naive")
    said: Any = views._register.states["w"]  # the topology of both
    assert said.joining.meaning == "WindowJoin(TumblingEventTimeWindow(1 hour by at) and clicked, full)"
    renamed = views.windowJoin(
        clicks, "ad", HOUR, otherTimestampField="clicked", outputFields="id, a, b, c, d", name="x"
    )
    assert renamed.fields == ("windowStart", "windowEnd", "id", "a", "b", "c", "d")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"keys": "user"}, "no field 'user' in stream 2"),
        ({"window": "1 hour"}, "'1 hour' is not an event-time window: use TumblingEventTimeWindow("),
        ({"window": TumblingDurationWindow("1 hour")}, "is not an event-time window"),
        ({"window": SessionWindow("1 hour", "at")}, "is not an event-time window"),
        ({"window": TumblingEventTimeWindow("1 hour", "user")}, "field 'user' is string, but a window needs a"),
        ({"otherTimestampField": "naive"}, "field 'at' is timestamp and field 'naive' is timestamp_ntz: convert both"),
        ({"otherTimestampField": 5}, "timestampField=5: expected the name of a timestamp field"),
        ({"joinType": "outwards"}, "unknown joinType 'outwards'"),
        ({"stateFactory": MemoryMapState.opaque(ttlSecs=5)}, "windowJoin keeps tuples until their window closes"),
        ({"stateFactory": 5}, "5 is not a state factory"),
        ({"outputFields": "id, a, b, windowStart, d"}, "windowStart"),
    ],
)
def test_wrong_calls(both: tuple[Stream, Stream], arguments: Any, says: str) -> None:
    views, clicks = both
    given = {"keys": "ad", "window": HOUR, "otherTimestampField": "clicked", **arguments}
    with pytest.raises(TopologyError) as raised:
        views.windowJoin(clicks, **given)
    assert says in str(raised.value)


def test_a_field_of_both_needs_names() -> None:
    topology = TridentTopology()
    views, clicks = (topology.newStream(name, FixedBatchSpout("ad long, at timestamp", [])) for name in "vc")
    with pytest.raises(DuplicateFieldError, match="name the fields with outputFields"):
        views.windowJoin(clicks, "ad", HOUR)


# --- joins within one batch behind two windows ------------------------------------------------------------------------


def counted(stream: Stream, name: str, window: Any = HOUR, **options: Any) -> Any:
    return stream.groupBy("ad").window(window, Count(), name, name=name, **options)


SECOND = "windowStart, windowEnd, ad"


def test_a_join_behind_windows_of_two_streams_is_refused(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    seen = counted(views, "seen").filter("seen", lambda seen: seen > 1)
    clicked = counted(clicks, "clicked2", TumblingEventTimeWindow("1 hour", "clicked"))
    with pytest.raises(TopologyError) as raised:
        seen.join(clicked, SECOND)
    assert "windows 'seen' and 'clicked2' close in different batches" in str(raised.value)
    assert "windowJoin(other, keys, TumblingEventTimeWindow('1 hour', 'at'), otherTimestampField=)" in str(raised.value)


def test_windows_of_one_stream_that_close_at_other_times_are_refused_too(both: tuple[Stream, Stream]) -> None:
    views, _ = both
    for name, other in (
        ("a", TumblingEventTimeWindow("1 hour", "at")),  # another lateness
        ("b", SlidingEventTimeWindow("2 hours", "1 hour", "at", lateness="1 minute")),
        ("c", SessionWindow("1 hour", "at")),
    ):
        with pytest.raises(TopologyError, match=f"windows 'one{name}' and '{name}' close in different batches"):
            counted(views, f"one{name}").join(counted(views, name, other), "windowStart, ad")
    some = views.filter("user", lambda user: user == "Ann")  # its latest time is another
    with pytest.raises(TopologyError, match="windows 'all' and 'some' close in different batches"):
        counted(views, "all").join(counted(some, "some"), SECOND)


WITH_STATES: dict[str, Callable[[Stream, str], Stream]] = {
    "dropDuplicates": lambda results, name: results.dropDuplicates("ad", name=name),
    "statefulEach": lambda results, name: results.statefulEach(
        lambda row, state: 1, "y long", keyFields="ad", valueType="long", name=name
    ),
    "new values": lambda results, name: (
        results.groupBy("ad").persistentAggregate(MemoryMapState.opaque(), Count(), "m", name=name).newValuesStream()
    ),
    "changes": lambda results, name: results.toTable("ad", name=name).changes().toStream(),
}


@pytest.mark.parametrize("step", WITH_STATES)
def test_steps_with_a_state_between_change_nothing(step: str, both: tuple[Stream, Stream]) -> None:
    views, _ = both
    between = WITH_STATES[step]
    one, two = (
        counted(views, "one"),
        counted(views, "two", TumblingEventTimeWindow("2 hours", "at", lateness="1 minute")),
    )
    mine, theirs = between(one, "a").project("ad"), between(two, "b").project("ad")
    with pytest.raises(TopologyError, match="windows 'one' and 'two' close in different batches"):
        mine.join(theirs, "ad")
    mine.join(between(one, "c").project("ad"), "ad")  # of one window
    mine.join(between(views, "d").project("ad"), "ad")  # the new values of a plain stream, within one batch as always


class Pairs:
    def init(self, collector: Any, group: Any) -> None:
        return None

    def execute(self, state: Any, stream: Any, group: Any, input: Any, collector: Any) -> None:
        collector.emit((stream,))

    def complete(self, state: Any, group: Any, collector: Any) -> None:
        pass


def test_a_multi_reduce_is_a_join_in_its_own_words() -> None:
    topology = TridentTopology()
    views = topology.newStream("views", FixedBatchSpout("ad long, at timestamp", []))
    one, same = counted(views, "one"), counted(views, "same")
    two = counted(views, "two", TumblingEventTimeWindow("2 hours", "at", lateness="1 minute"))
    reduce = topology.multiReduce
    with pytest.raises(TopologyError, match="windows 'one' and 'two' close in different batches"):
        reduce([one.groupBy("ad"), two.groupBy("ad")], ["one", "two"], Pairs(), "z long")
    reduce([one.groupBy("ad"), same.groupBy("ad")], ["one", "same"], Pairs(), "z long")


def test_windows_of_other_kinds_close_in_other_batches(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    three, four = TumblingCountWindow(3), TumblingCountWindow(4)
    five, six = TumblingDurationWindow("5 seconds"), TumblingDurationWindow("6 seconds")
    session = SessionWindow("1 hour", "at")
    pairs: list[tuple[Any, Any]] = [
        (counted(views, "t"), counted(views, "c", three)),
        (counted(views, "d", three), counted(views, "e", four)),
        (counted(views, "f", three), counted(clicks, "g", three)),
        (counted(views, "h", five), counted(views, "i", six)),
        (counted(views, "j", five), counted(views, "k", three)),
        (counted(views, "l", session), views.groupBy("ad, user").window(session, Count(), "m", name="m")),
        (views.window(three, Count(), "n", name="n"), views.parallelismHint(2).window(three, Count(), "n", name="o")),
    ]
    for one, other in pairs:
        key = next(iter({*one.fields} & {*other.fields} - {"windowStart", "windowEnd"}))
        with pytest.raises(
            TopologyError, match=r"close in different batches.*by count or batch time, put one side into"
        ):
            one.project(key).join(other.project(key), key)
    counted(views, "p", three).join(counted(views.project("ad"), "q", three), "ad")
    counted(views, "r", session).join(counted(views.project("ad, at"), "s", session), SECOND)
    some, more = views.window(three, Count(), "n", name="u"), views.project("ad").window(three, Count(), "n", name="v")
    some.join(more, "n")


def test_results_that_leave_in_one_batch_may_be_joined(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    one, two = counted(views, "one"), counted(views.project("ad, at"), "two")
    one.join(two, SECOND)
    one.join(one.groupBy("windowStart").aggregate("one", Count(), "n"), "windowStart")
    one.join(clicks.project("ad"), "ad")  # a plain stream, within one batch as always
    five = TumblingDurationWindow("5 seconds")  # all windows by batch time end together
    counted(views, "x", five).join(counted(clicks, "y", five), "ad")
