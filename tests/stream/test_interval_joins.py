"""The calls of intervalJoin: what they give, and what they say to wrong ones."""

import datetime
from typing import Any

import pytest

from trident import JoinedStream, Stream, TridentTopology
from trident.errors import TopologyError
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

HOUR = ("0 seconds", "1 hour")


@pytest.fixture
def both() -> tuple[Stream, Stream]:
    topology = TridentTopology()
    return (
        topology.newStream("views", FixedBatchSpout("ad long, at timestamp, user string", [])),
        topology.newStream("clicks", FixedBatchSpout("ad long, clicked timestamp, naive timestamp_ntz", [])),
    )


def test_the_keys_come_once_then_the_other_fields_of_both(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    joined = views.intervalJoin(clicks, "ad", HOUR, timestampField="at", otherTimestampField="clicked", joinType="full")
    assert isinstance(joined, JoinedStream)
    assert joined.fields == ("ad", "at", "user", "clicked", "naive")
    assert all(field.nullable for field in joined.schema.fields)
    assert joined.late("right").fields == ("ad", "clicked", "naive")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"keys": "user"}, "no field 'user' in stream 2"),
        ({"between": "1 hour"}, "between='1 hour': expected two durations, such as between=("),
        ({"between": ("soon", 0)}, "'soon' is not a duration; write between=("),
        ({"between": (0, datetime.timedelta.max)}, "at most 10,000 years ('3652425 days');"),
        ({"between": ("-3652426 days", 0)}, "between=('-3652426 days', 0): expected at most 10,000 years"),
        ({"lateness": "100000000 days"}, "lateness='100000000 days': expected at most 10,000 years"),
        ({"between": (5, -5)}, "between=(5, -5) ends before it begins"),
        ({"timestampField": "user"}, "field 'user' is string, but a window needs a timestamp"),
        ({"otherTimestampField": "naive"}, "field 'at' is timestamp and field 'naive' is timestamp_ntz: convert both"),
        ({"lateness": -1}, "lateness=-1: expected a non-negative duration"),
        ({"joinType": "outwards"}, "unknown joinType 'outwards'"),
        ({"stateFactory": MemoryMapState.opaque(ttlSecs=5)}, "intervalJoin decides how long it keeps a tuple"),
        ({"stateFactory": 5}, "5 is not a state factory"),
    ],
)
def test_wrong_calls(both: tuple[Stream, Stream], arguments: Any, says: str) -> None:
    views, clicks = both
    given = {"keys": "ad", "between": HOUR, "timestampField": "at", "otherTimestampField": "clicked", **arguments}
    with pytest.raises(TopologyError) as raised:
        views.intervalJoin(clicks, **given)
    assert says in str(raised.value)


def test_late_names_a_stream(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    joined = views.intervalJoin(clicks, "ad", HOUR, timestampField="at", otherTimestampField="clicked")
    with pytest.raises(TopologyError, match=r"late\('both'\): expected 'left' or 'right'"):
        joined.late("both")


def test_explain_shows_interval_state_and_promise(both: tuple[Stream, Stream]) -> None:
    views, clicks = both
    views.intervalJoin(
        clicks, "ad", ("-1 hour", 0), timestampField="at", otherTimestampField="clicked", joinType="left", name="near"
    ).peek(print)
    said = views._register  # the topology of both
    assert said.states["near"].joining.kind == "left"  # type: ignore[union-attr]
