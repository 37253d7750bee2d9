"""Durations: every option takes every form, and says so where it gets something else."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trident import SessionWindow, SlidingEventTimeWindow, TridentTopology, TumblingDurationWindow
from trident.base.durations import duration_text, to_microseconds
from trident.errors import DRPCArgumentError
from trident.log import RedisLog
from trident.spouts import FeederBatchSpout, FileSpout, FixedBatchSpout, IterableSpout, Watch
from trident.state import MemoryMapState, RedisMapState
from trident.testing import start_local

FORMS = ["90 seconds", "90s", "1.5 minutes", "1.5m", "90000 ms", " 1.5 Min ", 90, 90.0, datetime.timedelta(minutes=1.5)]
WRONG = ["soon", "90", "1M", "1 month", "5 parsecs", "", None, True, float("nan"), float("inf"), 1e308, [90]]
ACCEPTED = "is not a duration; write '5 minutes', '5m', a number of seconds or a timedelta"
URL = "redis://localhost"


def setting(option: str) -> Callable[[Any], float]:
    """Return a function that starts a topology with this option, and returns what the run has of it."""

    def read(value: Any) -> float:
        topology = TridentTopology()
        topology.newStream("words", FixedBatchSpout("word string", [])).peek(print)
        with start_local(topology, **{option: value}) as running:
            return float(getattr(running._context.settings, option))

    return read


OPTIONS: dict[str, Callable[[Any], float]] = {
    "processingTime": setting("processingTime"),
    "messageTimeoutSecs": setting("messageTimeoutSecs"),
    "commitRetrySecs": setting("commitRetrySecs"),
    "ttlSecs": lambda value: MemoryMapState.opaque(ttlSecs=value).ttlSecs,  # type: ignore[return-value,dict-item]
    "ttlSecs of Redis": lambda value: RedisMapState.transactional(URL, ttlSecs=value).ttlSecs,  # type: ignore[return-value,dict-item]
    "connectTimeout": lambda value: RedisMapState.opaque(URL, connectTimeout=value).connectTimeout,
    "socketTimeout": lambda value: RedisMapState.opaque(URL, socketTimeout=value).socketTimeout,
    "retrySecs": lambda value: float(RedisLog(URL, retrySecs=value).retrySecs),  # type: ignore[arg-type]
    "socketTimeout of the log": lambda value: float(RedisLog(URL, socketTimeout=value).socketTimeout),  # type: ignore[arg-type]
    "completeAfterSecs": lambda value: Watch(completeAfterSecs=value).completeAfterSecs,
    "maxDelaySecs": lambda value: IterableSpout("n long", [], maxDelaySecs=value).maxDelaySecs,
    "length": lambda value: TumblingDurationWindow(value).length / 1e6,
    "slide": lambda value: SlidingEventTimeWindow("3m", value, "at").slide / 1e6,
    "lateness": lambda value: SlidingEventTimeWindow("3m", "90s", "at", value).lateness / 1e6,
    "gap": lambda value: SessionWindow(value, "at").gap / 1e6,
}
NONE_MEANS = {"processingTime", "commitRetrySecs", "ttlSecs", "ttlSecs of Redis"}
"""The options in which None has a meaning of its own."""


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_takes_every_form(option: str) -> None:
    assert [OPTIONS[option](form) for form in FORMS] == [90.0] * len(FORMS)


@pytest.mark.parametrize("option", OPTIONS)
def test_every_option_says_what_it_takes(option: str) -> None:
    for wrong in WRONG:
        if wrong is None and option in NONE_MEANS:
            continue
        with pytest.raises(ValueError, match=f"{option.partition(' ')[0]}=.*{ACCEPTED}"):
            OPTIONS[option](wrong)
    with pytest.raises(ValueError, match=f"{option.partition(' ')[0]}='-1 s': expected a (positive|non-negative) dur"):
        OPTIONS[option]("-1 s")


def test_a_number_of_seconds_stays_as_it_is_and_a_text_is_shown_in_seconds() -> None:
    assert repr(MemoryMapState.opaque(ttlSecs=90)) == "MemoryMapState.opaque(ttlSecs=90)"
    assert repr(MemoryMapState.opaque(ttlSecs="1 hour")) == "MemoryMapState.opaque(ttlSecs=3600)"
    assert MemoryMapState.opaque(ttlSecs="500 ms") == MemoryMapState.opaque(ttlSecs=0.5)
    assert RedisMapState.opaque(URL, ttlSecs="1h") == RedisMapState.opaque(URL, ttlSecs=3600)


def test_waits_take_every_form_too() -> None:
    feeder, topology = FeederBatchSpout("word string"), TridentTopology()
    topology.newStream("words", feeder).peek(len)
    topology.newDRPCStream("echo")
    with start_local(topology) as running:
        feeder.feed(["a"], wait=True, timeout="1 minute")
        running.processAllAvailable("1 minute")
        assert running.awaitTermination(datetime.timedelta(milliseconds=1)) is False
        assert running.drpc.execute("echo", "x", timeout="1m")[0]["args"] == "x"
        with pytest.raises(DRPCArgumentError, match=f"DRPC 'echo': timeout='soon' {ACCEPTED}"):
            running.drpc.execute("echo", "x", timeout="soon")
        for wait in (running.processAllAvailable, running.awaitTermination):
            with pytest.raises(ValueError, match=f"timeout='soon' {ACCEPTED}"):
                wait("soon")
        with pytest.raises(ValueError, match=f"FeederBatchSpout: timeout='soon' {ACCEPTED}"):
            feeder.feed(["b"], wait=True, timeout="soon")


@pytest.mark.parametrize("unit", ["us", "ms", "s", "sec", "m", "min", "h", "d", "w", "week", "day", "hour", "second"])
def test_a_text_reads_back_from_what_is_shown(unit: str) -> None:
    number = to_microseconds(f"3 {unit}")
    assert number is not None and to_microseconds(duration_text(number)) == number
    assert to_microseconds(f"3{unit}") == number


def test_a_file_is_complete_after_a_duration(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo")  # the last line is not whole while the file may grow
    topology = TridentTopology()
    lines: list[Any] = []
    topology.newStream("lines", FileSpout(tmp_path, watch=Watch(completeAfterSecs="1 hour"))).peek("line", lines.append)
    with start_local(topology) as running:
        running.processAllAvailable("20s")
    assert lines == ["one"]
