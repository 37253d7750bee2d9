"""The simulated programs that stay what they are: of counts and sums, of verbs that have states of their own, and of
several aggregates in one state.

`meanings.py` knows what each of their states ought to hold.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa

from tests.simulator.in_world import CONTENT, InWorld, Worlds, checksum, first_letter, micros, moment, onward, together
from trident import (
    Average,
    CollectList,
    CollectSet,
    Count,
    First,
    Last,
    Latest,
    MapGet,
    Max,
    MaxBy,
    Median,
    Min,
    MinBy,
    SessionWindow,
    SlidingEventTimeWindow,
    StatefulOperation,
    StdDev,
    Sum,
    TopK,
    TransactionOperation,
    TridentTopology,
    VarPop,
    col,
)

WITHIN = timedelta(seconds=100)
"""How long a key is remembered."""
LATENESS = timedelta(seconds=60)
BETWEEN = (timedelta(seconds=-60), timedelta(seconds=30))
"""From where to where a tuple on the right may be, measured from the one on the left."""
GAP, SLACK = timedelta(seconds=50), timedelta(seconds=40)
"""Of sessions: the gap that ends one, and how long they wait for tuples."""
SLIDES = SlidingEventTimeWindow("100 seconds", "50 seconds", "at", lateness=SLACK)
CHAINS = SlidingEventTimeWindow("80 seconds", "40 seconds", "at", lateness=SLACK)
AT_ONCE = 1
"""How many timers by batch time fire in one batch at most."""
NUMBERS, OTHERS = "numbers", "others"
WORDS = {
    **{"one": (), "two": ("sums",), "stages": ("sums", "stages")},
    **{"query": ("query",), "merged": ("others", "stages"), "distinct": ("distinct",)},
}
"""The programs of counts and sums, and what each has beside counts."""

Streams = Callable[..., Any]
"""Makes a stream of this name."""


def _words(*more: str) -> Callable[[Streams, TridentTopology], None]:
    """counts: how often each word came. sums: the sum of the checksums of its numbers. seen: the txid in which it came
    first. totals, by first letter, in a second stage: the sum of all counts right after ("stages") or before ("query")
    each batch; or ("distinct") the sum of the numbers of the first tuple of each word."""

    def make(stream: Streams, topology: TridentTopology) -> None:
        numbers = topology.merge(stream(NUMBERS), stream(OTHERS)) if OTHERS in more else stream(NUMBERS)
        counts = numbers.groupBy("word").persistentAggregate(InWorld("counts"), Count(), "count", name="counts")
        if "sums" in more:
            checked = numbers.each("seq", checksum, "check long").groupBy("word")
            checked.persistentAggregate(InWorld("sums"), "check", Sum(), "sum", name="sums")
        if "stages" in more:
            _totals(counts.newValuesStream(everyChange=True), "count")
        if "query" in more:
            _totals(numbers.stateQuery(counts, "word", MapGet(), "before"), "before")
        if "distinct" in more:
            _totals(numbers.dropDuplicates("word", InWorld("seen"), name="seen"), "seq")

    return make


def _totals(words: Any, field: str) -> None:
    letters = words.each("word", first_letter, "letter string").groupBy("letter")
    letters.persistentAggregate(InWorld("totals"), field, Sum(), "total", name="totals")


def _recent(stream: Streams, topology: TridentTopology) -> None:
    """recent: when each word last went on. once, late: what went on, and what came too late."""
    timed = stream(NUMBERS).each("seq", moment, "at timestamp").each("seq", checksum, "check long")
    recent = timed.dropDuplicates(
        "word", InWorld("recent"), timestampField="at", within=WITHIN, lateness=LATENESS, name="recent"
    )
    _summed(recent, "once")
    _summed(recent.late(), "late")


def _table(stream: Streams, topology: TridentTopology, *, bootstrap: bool = False) -> None:
    """latest: the last tuple of each word. newest: the one with the greatest score. joined: what the other stream's
    tuples found in latest, or nothing; own: what the table's own tuples found."""
    numbers = stream(NUMBERS, bootstrap=bootstrap).each("seq", checksum, "check long")
    latest = numbers.toTable("word", InWorld("latest"), name="latest")
    scored = numbers.each("seq", score, "score long")
    scored.toTable("word", InWorld("newest"), valueFields="seq, score", orderBy="score", name="newest")
    found = stream(OTHERS).joinTable(latest, "word", joinType="left", outputFields=["before", "checked"])
    _summed(found.each(["seq", "before"], pair, "check long"), "joined")
    own = numbers.project("word", "seq").joinTable(latest, "word", outputFields=["before", "checked"])
    _summed(own.each(["seq", "before"], pair, "check long"), "own")


def _several(stream: Streams, topology: TridentTopology) -> None:
    """stats: of each word, by any aggregator. whole: the same over everything. totals: of stats right after each batch,
    by first letter."""
    scored = stream(NUMBERS).each("seq", score, "score long")
    stats = scored.groupBy("word").persistentAggregate(InWorld("stats"), AGGREGATES, name="stats")
    scored.persistentAggregate(InWorld("whole"), {"n": Count(), "top": MaxBy("word", "score")}, name="whole")
    letters = stats.newValuesStream(everyChange=True).each("word", first_letter, "letter string").groupBy("letter")
    letters.persistentAggregate(InWorld("totals"), {"n": Sum("n"), "greatest": Max("total")}, name="totals")


def _changes(stream: Streams, topology: TridentTopology) -> None:
    """held: of the rows of each word that are there, by aggregators with and without `retract`. sizes: their number.
    having: how many words have how many rows. rows: the last row of each word, unless it was deleted; joined: with the
    word's size. shared: each word's size, and how many words have it."""
    changes = stream(NUMBERS).each("seq", change, "kind string").asChanges("kind")
    by_word = changes.groupBy("word")
    by_word.persistentAggregate(InWorld("held"), {"total": Sum("seq"), "least": Min("seq")}, name="held")
    sizes = by_word.persistentAggregate(InWorld("sizes"), Count(), "n", name="sizes")
    by_size = sizes.changes().groupBy("n")
    having = by_size.persistentAggregate(InWorld("having"), Count(), "words", name="having")
    sizes.join(having, "n").toTable("word", InWorld("shared"), name="shared")
    rows = changes.toTable("word", InWorld("rows"), name="rows")
    rows.join(sizes, joinType="left").toTable("word", InWorld("joined"), name="joined")


def _upserts(stream: Streams, topology: TridentTopology) -> None:
    """rows: the last message of each word, unless it is a tombstone. letters: of the rows by first letter, how many,
    and by aggregators with and without `retract`. scores: how many rows have each score; a later message of a word
    moves its row to another one."""
    messages = stream(NUMBERS).each("seq", body, "value long")
    rows = messages.asUpserts().toTable("word", InWorld("rows"), name="rows")
    lettered = rows.changes().each("word", first_letter, "letter string").groupBy("letter")
    how = {"n": Count(), "total": Sum("seq"), "least": Min("seq")}
    lettered.persistentAggregate(InWorld("letters"), how, name="letters")
    scored = rows.changes().each("seq", score, "score long").groupBy("score")
    scored.persistentAggregate(InWorld("scores"), Count(), "words", name="scores")


def _filled(stream: Streams, topology: TridentTopology) -> None:
    """counts: how often each word came, more than a content tells. totals: of counts right after each batch, by first
    letter."""
    content = {"word": [*CONTENT], "count": pa.array(CONTENT.values(), pa.int64())}
    counts = (
        stream(NUMBERS)
        .groupBy("word")
        .persistentAggregate(InWorld("counts"), Count(), "count", name="counts", initialState=pa.table(content))
    )
    _totals(counts.newValuesStream(everyChange=True), "count")


def _growing(grown: bool) -> Callable[[Streams, TridentTopology], None]:
    def make(stream: Streams, topology: TridentTopology) -> None:
        """counts: how often each word came, in both streams. The new states, which begin with all tuples. sums, runs:
        the sum of their checksums. letters: by first letter, the changes of `sums`. marks: of one stream alone."""
        numbers = stream(NUMBERS)
        both = topology.merge(numbers, stream(OTHERS))
        both.groupBy("word").persistentAggregate(InWorld("counts"), Count(), "count", name="counts")
        if not grown:
            return
        checked = both.each("seq", checksum, "check long")
        words = checked.groupBy("word")
        sums = words.persistentAggregate(InWorld("sums"), "check", Sum(), "sum", name="sums", backfill=True)
        letters = sums.changes().each("word", first_letter, "letter string").groupBy("letter")
        how = {"n": Count(), "total": Sum("sum")}
        letters.persistentAggregate(InWorld("letters"), how, name="letters", backfill=True)
        checked.statefulEach(
            counted,
            "n long",
            keyFields="word",
            valueType="struct<n: long, sum: long>",
            stateFactory=InWorld("runs"),
            name="runs",
            backfill=True,
        )
        marks = numbers.each("seq", score, "score long").groupBy("word")
        how = {"least": Min("seq"), "greatest": Max("seq"), "scores": CollectSet("score")}
        marks.persistentAggregate(InWorld("marks"), how, name="marks", backfill=True)

    return make


AGGREGATES: dict[str, Any] = {
    "n": Count(),
    "total": Sum("seq"),
    "least": Min("seq"),
    "first": First("seq"),
    "last": Last("seq"),
    "all": CollectList("seq"),
    "scores": CollectSet("score"),
    "high": MaxBy("seq", "score"),
    "low": MinBy("seq", "score"),
    "apart": StdDev("seq"),
    "variance": VarPop("seq"),
    "middle": Median("seq"),
    "mean": Average("seq"),
    "best": ("seq", TopK(2)),
    "latest": ("score, seq", Latest("score")),
    "odd": Count(where=col("seq") % 2 == 1),
    "oddest": ("seq", TopK(1, where=col("seq") % 2 == 1)),
}


def _stateful(stream: Streams, topology: TridentTopology) -> None:
    """runs: how often each word came, with the sum of its checksums. ranks: by first letter, the sum of the numbers
    that `runs` emitted, in a second operation. checkpoint: that of all words, from the memory of a third."""
    numbers = stream(NUMBERS).each("seq", checksum, "check long")
    runs = numbers.statefulEach(
        counted,
        "n long",
        keyFields="word",
        valueType="struct<n: long, sum: long>",
        stateFactory=InWorld("runs"),
        name="runs",
    )
    lettered = runs.each("word", first_letter, "letter string").groupBy("letter")
    ranked = lettered.statefulEach(Ranks(), "rank long", valueType="long", stateFactory=InWorld("ranks"), name="ranks")
    ranked.statefulEach("n", Checkpoints(), "total long", stateFactory=InWorld("checkpoint"), name="checkpoint")


def counted(tuple: Any, state: Any) -> int:
    """The number of the word, as a function of a tuple and the state."""
    before = state.get(tuple.word, {"n": 0, "sum": 0})
    n = before["n"] + 1
    state.put(tuple.word, {"n": n, "sum": before["sum"] + tuple.check})
    return int(n)


class OfDriver:
    """What an object of the program has in memory: here all drivers share the object, so each has its own."""

    def __init__(self) -> None:
        self._held: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    @property
    def memory(self) -> Any:
        return self._held[Worlds.now.scheduler.current]

    @memory.setter
    def memory(self, value: Any) -> None:
        self._held[Worlds.now.scheduler.current] = value


def may_fail() -> None:
    """User code that raises, as often as workers do."""
    if Worlds.now.faults.of_worker(2) == "raises":
        raise RuntimeError("a stateful operation raised")


class Ranks(OfDriver, StatefulOperation):
    """Sums by letter. It holds a batch's sums in memory, and puts them into the state at its end."""

    def initState(self, state: Any) -> None:
        self.memory = (state, {})

    def execute(self, tuple: Any, collector: Any) -> None:
        state, sums = self.memory
        sums[tuple.letter] = sums.get(tuple.letter, 0) + tuple.n
        collector.emit([state.get(tuple.letter, 0) + sums[tuple.letter]])

    def prePrepare(self, txid: int) -> None:
        may_fail()
        state, sums = self.memory
        for letter, total in sums.items():
            state.put(letter, state.get(letter, 0) + total)
        sums.clear()

    def preRollback(self) -> None:
        self.memory[1].clear()


class Checkpoints(OfDriver, TransactionOperation):
    """The sum of everything, kept in memory only."""

    def initState(self, checkpoint: Any) -> None:
        self.memory = checkpoint or 0

    rollback = initState

    def execute(self, tuple: Any, collector: Any) -> None:
        self.memory += tuple.n
        collector.emit([self.memory])

    def finishBatch(self, txid: int) -> int:
        may_fail()
        return int(self.memory)


_PAIRED = "word, seq, at, leftCheck, other, otherAt, rightCheck"


def _both(stream: Streams, time_of: Callable[[int], datetime | None]) -> list[Any]:
    """Return the streams of a join, with times and checksums."""
    numbered = [stream(name) for name in (NUMBERS, OTHERS)]
    return [each.each("seq", time_of, "at timestamp").each("seq", checksum, "check long") for each in numbered]


def _summed_late(pairs: Any) -> None:
    _summed(pairs.late("left"), "lateLeft")
    _summed(pairs.late("right"), "lateRight")


def _interval(kind: str) -> Callable[[Streams, TridentTopology], None]:
    def make(stream: Streams, topology: TridentTopology) -> None:
        """pairs: the tuples that wait for a partner. matched: what left. lateLeft, lateRight: what came too late."""
        left, right = _both(stream, moment)
        pairs = left.intervalJoin(
            right,
            "word",
            BETWEEN,
            timestampField="at",
            lateness=LATENESS,
            joinType=kind,
            outputFields=_PAIRED,
            stateFactory=InWorld("pairs"),
            name="pairs",
        )
        _summed(pairs.each(["seq", "other"], pair, "check long"), "matched")
        _summed_late(pairs)

    return make


def _window_join(kind: str) -> Callable[[Streams, TridentTopology], None]:
    def make(stream: Streams, topology: TridentTopology) -> None:
        """pairs: the tuples that wait for the end of their windows. matched: what left. lateLeft, lateRight: what came
        too late."""
        left, right = _both(stream, together)
        pairs = left.windowJoin(
            right,
            "word",
            SLIDES,
            joinType=kind,
            outputFields=_PAIRED,
            stateFactory=InWorld("pairs"),
            name="pairs",
        )
        _summed(pairs.each(["windowStart", "seq", "other"], pair_in, "check long"), "matched")
        _summed_late(pairs)

    return make


def _sessions(with_late: bool) -> Callable[[Streams, TridentTopology], None]:
    def make(stream: Streams, topology: TridentTopology) -> None:
        """visits: the open sessions of each word. closed: what left them. late: what came too late."""
        timed = stream(NUMBERS).each("seq", onward, "at timestamp").each("seq", checksum, "check long")
        visits = timed.groupBy("word").window(
            SessionWindow(GAP, "at", lateness=SLACK),
            InWorld("visits"),
            {"n": Count(), "sum": Sum("check")},
            name="visits",
        )
        closed = visits.each(["windowStart", "windowEnd", "n", "sum"], visit, "check long")
        _summed(closed, "closed")
        if with_late:
            _summed(visits.late(), "late")

    return make


def _timers(stream: Streams, topology: TridentTopology) -> None:
    """rings: of each word how many of its tuples and timers came, and a sum of them, unless it was deleted. rung: all
    that the tuples and the timers emitted."""
    timed = stream(NUMBERS).each("seq", onward, "at timestamp")
    rings = timed.statefulEach(
        wound,
        "check long",
        keyFields="word",
        valueType="struct<n: long, sum: long>",
        stateFactory=InWorld("rings"),
        onTimer=ring,
        timestampField="at",
        lateness=SLACK,
        name="rings",
    )
    _summed(rings, "rung")


def wound(tuple: Any, state: Any) -> int:
    """Wind the clock of a word: set and remove timers, and change the value."""
    effect = winding(tuple.seq, tuple.at)
    if effect.removes:
        state.delete(tuple.word)
    else:
        state.put(tuple.word, added(state.get(tuple.word), checksum(tuple.seq)))
    _rewind(tuple.word, effect, state)
    return noted(checksum(tuple.seq), state.now())


def ring(timer: Any, state: Any) -> int:
    """Count a timer that fires, and change other timers of its key."""
    may_fail()
    effect = ringing(timer.at, timer.name)
    state.put(timer.key, added(state.get(timer.key), effect.check))
    _rewind(timer.key, effect, state)
    return noted(effect.check, state.now())


def _rewind(word: str, effect: "Effect", state: Any) -> None:
    """Stop the timers of a word, and set others."""
    for name in effect.stops:
        state.deleteTimer(word, name)
    for name, at in effect.sets.items():
        state.setTimer(word, at, name)


def _reminders(stream: Streams, topology: TridentTopology) -> None:
    """notes: the same as `rings` with timers by the time of the batch, of which a batch fires only a few. told: all
    that the tuples and the timers emitted."""
    notes = stream(NUMBERS).statefulEach(
        promised,
        "check long",
        keyFields="word",
        valueType="struct<n: long, sum: long>",
        stateFactory=InWorld("notes"),
        onTimer=remind,
        maxTimersPerBatch=AT_ONCE,
        name="notes",
    )
    _summed(notes, "told")


def promised(tuple: Any, state: Any) -> int:
    """Set and remove reminders of a word, and change the value."""
    now = state.now()
    effect = promising(tuple.seq, now)
    if effect.removes:
        state.delete(tuple.word)
    else:
        state.put(tuple.word, added(state.get(tuple.word), checksum(tuple.seq)))
    _rewind(tuple.word, effect, state)
    return stamped(checksum(tuple.seq), now)


def remind(timer: Any, state: Any) -> int:
    """Count a reminder, and change others of its key."""
    may_fail()
    effect = reminding(timer.at, timer.name)
    state.put(timer.key, added(state.get(timer.key), effect.check))
    _rewind(timer.key, effect, state)
    return stamped(effect.check, state.now())


def _early(stream: Streams, topology: TridentTopology) -> None:
    """slides, visits, chains: the open windows of each word, by a combiner, in sessions, by a reducer that sees every
    tuple. The results so far are in tables, slideTable and so on, and in slideSums, by word: how many windows it has,
    with the sum of their sums."""
    timed = stream(NUMBERS).each("seq", onward, "at timestamp").each("seq", checksum, "check long")
    by_word = timed.groupBy("word")
    both = {"n": Count(), "sum": Sum("check")}
    slides = by_word.window(SLIDES, InWorld("slides"), both, name="slides", emit="changes")
    visits = by_word.window(
        SessionWindow(GAP, "at", lateness=SLACK), InWorld("visits"), both, name="visits", emit="changes"
    )
    chains = by_word.window(CHAINS, InWorld("chains"), "check", Chain(), "chain long", name="chains", emit="changes")
    for name, results in (("slideTable", slides), ("visitTable", visits), ("chainTable", chains)):
        results.toTable("windowStart, word", InWorld(name), name=name)
    slides.groupBy("word").persistentAggregate(
        InWorld("slideSums"), {"n": Count(), "sum": Sum("sum")}, name="slideSums"
    )


class Chain:
    """A sum to which the order of the tuples matters."""

    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return chained(curr, tuple.check)


def _summed(stream: Any, name: str) -> None:
    """A state that tells which tuples came, of each word: how many, and the sum of their checksums."""
    stream.groupBy("word").persistentAggregate(InWorld(name), {"n": Count(), "sum": Sum("check")}, name=name)


MADE: dict[str, Callable[[Streams, TridentTopology], None]] = {
    **{flow: _words(*more) for flow, more in WORDS.items()},
    "recent": _recent,
    "table": _table,
    "bootstrap": partial(_table, bootstrap=True),
    "several": _several,
    "stateful": _stateful,
    "sessions": _sessions(with_late=False),
    "sessions late": _sessions(with_late=True),
    **{f"interval {kind}": _interval(kind) for kind in ("inner", "left", "right", "full")},
    **{f"window join {kind}": _window_join(kind) for kind in ("inner", "full")},
    "changes": _changes,
    "upserts": _upserts,
    "timers": _timers,
    "reminders": _reminders,
    "early": _early,
    "filled": _filled,
    "backfill": _growing(grown=True),
    "before a backfill": _growing(grown=False),
}
"""The programs, by the names of their flows."""


_OF_TWO = ("table", "bootstrap", "merged", "interval", "window join", "backfill", "before")


def streams_of(flow: str) -> tuple[str, ...]:
    """The streams of a flow."""
    return (NUMBERS, OTHERS) if flow.startswith(_OF_TWO) else (NUMBERS,)


# --- functions of the programs, which the oracle uses too -------------------------------------------------------------


def score(seq: int) -> int:
    """A number that several tuples share."""
    return seq * 7 % 5


def change(seq: int) -> str:
    """Return the kind of change of a tuple. Some rows are deleted that were never inserted."""
    return "delete" if checksum(seq) % 3 == 0 else "insert"


def body(seq: int) -> int | None:
    """Return the body of a message; None makes it a tombstone. Some words get one that have no row."""
    return None if change(seq) == "delete" else seq


def pair(left: int | None, right: int | None) -> int:
    """What a pair of tuples adds to a sum; either may be missing."""
    return (3 * checksum(98 if left is None else left) + 7 * checksum(99 if right is None else right)) >> 4


def pair_in(start: datetime, left: int | None, right: int | None) -> int:
    """Return the number that a pair of tuples adds to a sum in the window that begins at `start`."""
    return pair(left, right) ^ int(start.timestamp()) & 0xFFFFFF


@dataclass(frozen=True)
class Effect:
    """The effect of a tuple or a timer on the timers of its key: those that it stops, and those that it sets."""

    check: int = 0
    removes: bool = False
    stops: tuple[str, ...] = ()
    sets: Mapping[str, datetime] = field(default_factory=dict)


def winding(seq: int, at: datetime | None) -> Effect:
    """Return the effect of a tuple. Some timers are set for a time that has passed."""
    what = checksum(seq) % 7
    if what == 0:
        return Effect(removes=True)
    if at is None or what == 1:
        return Effect(stops=("once", "again"))
    after = timedelta(seconds=checksum(seq) % 200 - 40)
    return Effect(sets={("once", "again", "stop")[what % 3]: at + after})


def ringing(at: datetime, name: str) -> Effect:
    """Return the effect of a timer that fires. Some set themselves again, some stop others."""
    second = int(at.timestamp())
    again = name == "again" and second % 3 > 0
    return Effect(
        check=checksum(second + len(name)),
        stops=("once",) if name == "stop" else (),
        sets={name: at + timedelta(seconds=25 + second % 40)} if again else {},
    )


def promising(seq: int, now: datetime) -> Effect:
    """Return the effect of a tuple on its reminders. Some are for a time that has passed, some for a distant day."""
    what = checksum(seq) % 9
    if what == 0:
        return Effect(removes=True)
    if what == 1:
        return Effect(stops=("once", "again"))
    if what == 2:
        return Effect(sets={"someday": now + timedelta(days=10)})
    after = timedelta(milliseconds=checksum(seq) % 4000 - 500)
    return Effect(sets={("once", "again", "stop")[what % 3]: now + after})


def reminding(at: datetime, name: str) -> Effect:
    """Return the effect of a reminder: as `ringing`, in shorter spans."""
    check = checksum(micros(at) + len(name))
    again = name == "again" and check % 3 > 0
    return Effect(
        check=check,
        stops=("once",) if name == "stop" else (),
        sets={name: at + timedelta(milliseconds=200 + check % 1500)} if again else {},
    )


def stamped(check: int, now: datetime) -> int:
    """Return the number that a tuple or reminder emits, which tells in a batch of which time it was seen."""
    return check ^ (micros(now) & 0xFFFFFFF)


def added(value: Any, check: int) -> dict[str, int]:
    """Return the value of a word with one more tuple or timer."""
    return {"n": 1, "sum": check} if value is None else {"n": value["n"] + 1, "sum": value["sum"] + check}


def noted(check: int, now: datetime | None) -> int:
    """Return the number that a tuple or timer emits, which tells at which time of the clock it was seen."""
    return check ^ (0 if now is None else int(now.timestamp()) & 0xFFF)


def chained(value: int, check: int) -> int:
    """Return the next value of a Chain."""
    return (value * 31 + check) & 0xFFFFFFFFFFF


def visit(start: datetime, end: datetime, n: int, total: int) -> int:
    """Return the number that a session adds to a sum."""
    return (int(start.timestamp()) * 31 + int(end.timestamp()) * 7 + n * 3 + total) & 0xFFFFFFFFFFF
