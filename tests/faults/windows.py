"""The topology of the kills that meet windows: by count, by event time with late tuples, sessions, and early results.

Whatever the batches, the order within them and what is late, every tuple is in exactly one place: in a window that has
left, in one that is open, or among the late ones. Checksums by word say so.
"""

import datetime
from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.faults.source import NumberedSpout, records
from trident import SessionWindow, Sum, TridentTopology, TumblingEventTimeWindow
from trident.run.running import RunningTopology
from trident_spouts.executor import SpoutKind

EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def timed(seq: int) -> datetime.datetime:
    """Each partition's numbers in their order, a second apart."""
    return EPOCH + datetime.timedelta(seconds=seq % 1_000_000)


class Checked:
    """A session's sum; a reducer, so that its tuples wait."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + int(tuple.seq)


def topology(kind: str, total: int, state: Callable[[], Any]) -> TridentTopology:
    made = TridentTopology()
    spout = NumberedSpout(total, SpoutKind.OPAQUE if kind == "opaque" else SpoutKind.TRANSACTIONAL)
    words = made.newStream("numbers", spout).each("seq", timed, "at timestamp")
    threes = words.groupBy("word").tumblingWindow(3, state(), "seq", Sum(), "sum", name="threes")
    threes.groupBy("word").persistentAggregate(state(), "sum", Sum(), "total", name="threes.left")
    tens = words.groupBy("word").window(
        TumblingEventTimeWindow(10, "at", lateness=2), state(), "seq", Sum(), "sum", name="tens"
    )
    tens.groupBy("word").persistentAggregate(state(), "sum", Sum(), "total", name="tens.left")
    tens.late().groupBy("word").persistentAggregate(state(), "seq", Sum(), "total", name="tens.late")
    visits = words.groupBy("word").window(
        SessionWindow(15, "at", lateness=60), state(), "seq", Checked(), "sum long", name="visits"
    )
    visits.groupBy("word").persistentAggregate(state(), "sum", Sum(), "total", name="visits.left")
    early = words.groupBy("word").window(
        SessionWindow(15, "at", lateness=60), state(), "seq", Sum(), "sum", name="early", emit="changes"
    )
    early.groupBy("word").persistentAggregate(state(), "sum", Sum(), "total", name="early.total")
    return made


def found(running: RunningTopology) -> dict[str, dict[str, int]]:
    """The checksum of every word by each kind of window."""
    threes, tens, visits = (Counter[str](dict(running.state(f"{name}.left").items())) for name in _NAMES)
    for (word, _), value in running.state("threes").items():
        threes[word] += sum(row.tuple.seq for row in value.tuples)
    for (_, word), value in running.state("tens").items():
        tens[word] += value
    tens.update(dict(running.state("tens.late").items()))
    for word, sessions in running.state("visits").items():
        visits[word] += sum(row.tuple.seq for session in sessions for row in session.held)
    return {"threes": dict(threes), "tens": dict(tens), "visits": dict(visits)}


def found_early(running: RunningTopology) -> dict[str, dict[str, int]]:
    """The checksum of every word by the early results of a window."""
    return {"early": dict(running.state("early.total").items())}


_NAMES = ("threes", "tens", "visits")


def expected(total: int) -> dict[str, dict[str, int]]:
    """Every tuple once, whichever the window."""
    sums: Counter[str] = Counter()
    for part in records(total):
        for word, seq in part:
            sums[word] += seq
    return {name: dict(sums) for name in (*_NAMES, "early")}
