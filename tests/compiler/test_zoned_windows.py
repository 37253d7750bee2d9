"""Windows of whole days of a time zone, compared with Python's own zones: days of 23 and 25 hours, and odder ones."""

import datetime
import random
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from tests.compiler.join_runner import Joining
from tests.compiler.stage_runner import STATE, Slots, results, stream
from tests.compiler.window_runner import EPOCH, FIELDS, Windowed
from trident import Count, ReducerAggregator, SlidingEventTimeWindow, Sum, TridentTopology, TumblingEventTimeWindow
from trident import functions as F
from trident.compiler.windows import zoned_days
from trident.errors import TopologyError, TypeDeclarationError
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

ZONES = (
    "Europe/Berlin",
    "America/New_York",
    "America/Sao_Paulo",  # its clocks skipped midnight
    "America/Havana",  # its clocks show midnight twice
    "Pacific/Apia",  # has no 2011-12-30
    "Australia/Lord_Howe",  # changes by half an hour
    "Asia/Kathmandu",
)
BERLIN = TumblingEventTimeWindow("1 day", "at", timeZone="Europe/Berlin")
MICRO = datetime.timedelta(microseconds=1)


def utc(*parts: int) -> datetime.datetime:
    return datetime.datetime(*parts, tzinfo=datetime.UTC)  # type: ignore[misc, arg-type]


def micros(time: datetime.datetime) -> int:
    return (time - EPOCH) // MICRO


def day_of(time: datetime.datetime, zone: str, days: int) -> tuple[int, int, int]:
    """Return the start, the end and the number of the window that has a time, by Python's zones."""
    date = time.astimezone(ZoneInfo(zone)).date()
    number = (date - datetime.date(1970, 1, 1)).days // days

    def begin(number: int) -> int:
        first = datetime.datetime(1970, 1, 1) + datetime.timedelta(days=number * days)
        return micros(first.replace(tzinfo=ZoneInfo(zone)).astimezone(datetime.UTC))

    later = (begin(number + more) for more in (1, 2, 3))
    return begin(number), next(end for end in later if end > begin(number)), number


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("days", [1, 7])
def test_windows_are_the_days_of_the_zone(zone: str, days: int) -> None:
    chance = random.Random(zone)
    times = [utc(2011, 1, 1) + chance.randint(0, 9 * 365 * 86_400_000_000) * MICRO for _ in range(1500)]
    near = [datetime.datetime(2011, 12, 29, tzinfo=datetime.UTC) + datetime.timedelta(hours=n) for n in range(72)]
    expected = [day_of(time, zone, days) for time in [*times, *near]]
    given = np.asarray([micros(time) for time in [*times, *near]], np.int64)
    starts = zoned_days.starts(zone, days, given)
    assert starts.tolist() == [start for start, _, _ in expected]
    assert zoned_days.ends(zone, days, starts).tolist() == [end for _, end, _ in expected]
    assert [zoned_days.number(zone, days, start) for start in starts[:99]] == [n for _, _, n in expected[:99]]


def test_a_day_that_the_clocks_enter_twice_is_one_window() -> None:
    """In Newfoundland clocks went back from 00:01 to 23:01 of the day before: the day begins at the first midnight."""
    midnight = utc(2010, 11, 7, 2, 30)
    hours = [micros(midnight) + minute * 60_000_000 for minute in (-1, 0, 1, 30, 61, 24 * 60 + 59)]
    starts = zoned_days.starts("America/St_Johns", 1, np.asarray(hours, np.int64))
    assert set(starts[1:].tolist()) == {micros(midnight)}
    assert zoned_days.ends("America/St_Johns", 1, starts[:1]).tolist() == [micros(midnight)]


@pytest.mark.parametrize("way", ["combined", "gathered"])
def test_a_year_of_local_days(way: str) -> None:
    """The results of every day, the late tuples and a restart, for an hourly stream through both changes of clocks."""

    class Counted(ReducerAggregator):
        outputType = "long"

        def init(self) -> int:
            return 0

        def reduce(self, curr: int, tuple: Any) -> int:
            return curr + 1

    aggregator = Count() if way == "combined" else Counted()
    window = Windowed(lambda s: s.window(BERLIN, aggregator, "n"), late=True)
    hours = [utc(2026, 1, 1) + datetime.timedelta(hours=n) for n in range(365 * 24)]
    found, late = [], []
    for number, at in enumerate(range(0, len(hours), 500)):
        rows, too_late = window.batch([("a", hour, 1) for hour in hours[at : at + 500]], twice=number % 3 == 0)
        found += rows
        late += too_late
        if number % 4 == 0:
            window.restart()
    expected: dict[tuple[Any, Any], int] = {}
    for hour in hours:
        start, end, _ = day_of(hour, "Europe/Berlin", 1)
        key = EPOCH + start * MICRO, EPOCH + end * MICRO
        expected[key] = expected.get(key, 0) + 1
    assert [tuple(row) for row in found] == [(*key, n) for key, n in expected.items()][: len(found)]
    assert len(found) == 365 and late == []
    sizes = sorted({row[2] for row in found[1:]})
    assert sizes == [23, 24, 25]
    _, late = window.batch([("a", utc(2026, 12, 30, 22, 59), 1), ("a", utc(2026, 12, 31, 23), 1)])
    assert [row[1] for row in late] == [utc(2026, 12, 30, 22, 59)]


def test_joins_of_local_days() -> None:
    join = Joining(lambda first, second: first.windowJoin(second, "k", BERLIN, otherTimestampField="t"))
    spring = micros(utc(2026, 3, 29, 21, 59)) / 10**6, micros(utc(2026, 3, 29, 22)) / 10**6  # 23:59 and 00:00
    last = [("a", 2 * 10**9, 9)]
    first, _ = join.batch(
        [("a", spring[0], 1), ("a", spring[1], 2)], [("a", spring[0] - 60, 1), ("a", spring[1] + 60, 2)]
    )  # type: ignore[list-item]
    rows, _ = join.batch(last, last)  # type: ignore[arg-type]
    found = [(row["windowStart"], row["windowEnd"], row["n"], row["m"]) for row in [*first, *rows]]
    assert found == [
        (utc(2026, 3, 28, 23), utc(2026, 3, 29, 22), 1, 1),
        (utc(2026, 3, 29, 22), utc(2026, 3, 30, 22), 2, 2),
    ]


def test_both_engines_combine_by_local_days(engine: Slots) -> None:
    rows = [("a", utc(2026, 3, 28, 22, 59), 1), ("a", utc(2026, 3, 28, 23), 2), ("a", utc(2026, 3, 29, 21, 59), 4)]
    topology = TridentTopology()
    days = stream(topology, FIELDS, [*rows, ("a", None, 8)], []).groupBy("k")
    days.window(BERLIN, STATE, "n", Sum(), "x", name="w").peek(str)
    found = sorted(results(engine, topology, 0)["w|"])
    assert [row[:-1] for row in found] == [(utc(2026, 3, 27, 23), "a", 1), (utc(2026, 3, 28, 23), "a", 6)]


@pytest.mark.parametrize(
    ("zone", "length", "says"),
    [
        ("Europe/Bärlin", "1 day", "timeZone='Europe/Bärlin': expected a zone's name, such as 'Europe/Berlin'"),
        (5, "1 day", "timeZone=5: expected a zone's name"),
        ("../etc/passwd", "1 day", "expected a zone's name"),
        (
            "Europe/Berlin",
            "12 hours",
            "length 12 hours with timeZone='Europe/Berlin': windows of a time zone are whole",
        ),
        ("Europe/Berlin", "36 hours", "are whole days, such as '1 day'"),
        (
            "Asia/Kolkata",
            "1 hour",
            "a field of local time, .each({'local': F.from_utc_timestamp('at', 'Asia/Kolkata')}",
        ),
    ],
)
def test_wrong_zones(zone: Any, length: str, says: str) -> None:
    with pytest.raises(TopologyError) as raised:
        TumblingEventTimeWindow(length, "at", timeZone=zone)
    assert says in str(raised.value)


def test_hours_of_a_half_hour_offset_are_windows_over_local_time() -> None:
    local = F.from_utc_timestamp("at", "Asia/Kolkata")
    hour = TumblingEventTimeWindow("1 hour", "local")
    topology = TridentTopology()
    rows = [[(utc(2026, 1, 1, 4, 45),), (utc(2026, 1, 1, 5, 15),), (utc(2026, 1, 1, 5, 45),)], [(utc(2026, 1, 2),)], []]
    counted: list[dict[str, Any]] = []
    windows = (
        topology.newStream("s", FixedBatchSpout("at timestamp", rows)).each({"local": local}).window(hour, Count(), "n")
    )
    windows.foreachArrow(lambda table, txid, attempt: counted.extend(table.to_pylist()), name="hours")
    with start_local(topology) as running:
        running.processAllAvailable()
    assert [(each["windowStart"].hour, each["n"]) for each in counted] == [(10, 2), (11, 1)]


def test_local_times_have_no_zone() -> None:
    topology = TridentTopology()
    local, other = (topology.newStream(n, FixedBatchSpout("k string, at timestamp_ntz", [])) for n in "ab")
    for call in (lambda: local.window(BERLIN, Count(), "n"), lambda: local.windowJoin(other, "k", BERLIN)):
        with pytest.raises(TypeDeclarationError, match="'at' is timestamp_ntz, a local time already: leave timeZone="):
            call()


def test_a_zone_is_a_part_of_the_meaning() -> None:
    assert BERLIN.meaning == "TumblingEventTimeWindow(1 day by at in Europe/Berlin)"
    assert repr(BERLIN) == "TumblingEventTimeWindow('1 day', 'at', timeZone='Europe/Berlin')"
    assert SlidingEventTimeWindow("1 day", "1 day", "at").timeZone is None
