"""What the states of `verbs.py` must hold after each batch: from all tuples so far, by the plainest means.

Nothing of the library is used but the number of a part of an index and the order of keys. Nothing is carried from batch
to batch.
"""

import json
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Generic, TypeVar

import pyarrow as pa
from pyspark.sql.types import StringType, StructField, StructType

from tests.simulator.in_world import CONTENT, EPOCH, KEYS, checksum, first_letter, moment, onward, together
from tests.simulator.spouts import Row
from tests.simulator.verbs import (
    AT_ONCE,
    BETWEEN,
    CHAINS,
    GAP,
    LATENESS,
    NUMBERS,
    OTHERS,
    SLACK,
    SLIDES,
    WITHIN,
    WORDS,
    Effect,
    added,
    body,
    chained,
    change,
    noted,
    pair,
    pair_in,
    promising,
    reminding,
    ringing,
    score,
    stamped,
    visit,
    winding,
)
from trident.operations.table_indexes import DIRECTORIES, PartOf
from trident.operations.windows import TimeWindow
from trident_state.keys import encode_keys


class Batch(dict[str, list[Row]]):
    """The tuples of each stream, in their order. `time`: that of the batch, in seconds since 1970."""

    txid: int
    time: float

    @classmethod
    def of(cls, given: Mapping[str, list[Row]], txid: int, time: float) -> "Batch":
        batch = cls(given)
        batch.txid, batch.time = txid, time
        return batch


Held = dict[Any, Any]
"""By key; a key of several fields is a tuple."""

PART = WITHIN / 64
"""Keys whose times lie in one part of WITHIN are forgotten together."""
_PART = PartOf(StructType([StructField("word", StringType())]))
"""The part of an index to which a word belongs. Which one it is does not matter, as long as it is always the same."""


@dataclass(frozen=True)
class Maybe:
    """A value that a state may have forgotten by now. One that it held before the last batch it has forgotten when the
    watermark is past its time by a PART: else a state would grow for ever."""

    value: Any


class AnyOrder(tuple[Any, ...]):
    """Values that a list may hold in any order."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list | tuple) and sorted(self) == sorted(map(tuple, other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


@dataclass(frozen=True)
class Waiting:
    """The tuples that wait in the state of a join: side, word, batch and number. An interval join may hold one for
    longer than it needs it, and none that came too late.

    Tuples whose times lie in one `bucket` are in one entry."""

    needed: frozenset[tuple[str, str, int, int]]
    allowed: frozenset[tuple[str, str, int, int]]
    bucket: timedelta


def difference(expected: Held | Waiting, found: Mapping[Any, Any]) -> str:
    """What is wrong with what was found; "" if nothing is."""
    if isinstance(expected, Waiting):
        return _of_waiting(expected, found)
    for key in {*expected, *found}:
        ought, value = expected.get(key), found.get(key)
        if isinstance(ought, Maybe) and value is None:
            continue
        if value != (ought.value if isinstance(ought, Maybe) else ought):
            return f"{key!r} is {value}, and ought to be {ought} (found {dict(found)}, expected {expected})"
    return ""


def _of_waiting(expected: Waiting, found: Mapping[Any, Any]) -> str:
    held = []
    for (_, bucket, word, txid), value in found.items():
        for side in ("left", "right"):
            for row in (value or {}).get(side) or ():
                held.append((side, row["word"], txid, row["seq"]))
                start = (row["at"] - EPOCH) // timedelta(microseconds=1)
                if row["word"] != word or not bucket <= start < bucket + expected.bucket // timedelta(microseconds=1):
                    return f"{row} waits under {word!r} and {bucket}"
    if len({*held}) != len(held):
        return f"a tuple waits twice: {sorted(held)}"
    missing, surplus = expected.needed - {*held}, {*held} - expected.allowed
    return f"{sorted(missing)} do not wait, and {sorted(surplus)} wait" if missing or surplus else ""


# --- each flow --------------------------------------------------------------------------------------------------------


def _words(history: list[Batch], more: tuple[str, ...]) -> dict[str, Held | Waiting]:
    counts, sums, totals, seen = Counter[str](), Counter[str](), Counter[str](), dict[str, int]()
    for batch in history:
        txid = batch.txid
        rows = [row for rows in batch.values() for row in rows]
        before = dict(counts)
        for word, seq in rows:
            counts[word] += 1
            sums[word] += checksum(seq)
            if "query" in more:
                totals[first_letter(word)] += before.get(word, 0)
            if "distinct" in more and word not in seen:
                seen[word] = txid
                totals[first_letter(word)] += seq
        for word in {word for word, _ in rows} if "stages" in more else ():
            totals[first_letter(word)] += counts[word]
    held: dict[str, Held | Waiting] = {"counts": dict(counts)}
    held |= {"sums": dict(sums)} if "sums" in more else {}
    held |= {"totals": dict(totals)} if {"stages", "query", "distinct"} & {*more} else {}
    return held | ({"seen": seen} if "distinct" in more else {})


def _recent(history: list[Batch]) -> dict[str, Held | Waiting]:
    mark: datetime | None = None
    went: dict[str, datetime] = {}
    earlier: dict[str, datetime] = {}
    """What went on before the last batch."""
    on, late = list[tuple[str, int]](), list[tuple[str, int]]()
    for batch in history:
        before, earlier = mark, dict(went)
        for word, seq in batch[NUMBERS]:
            at = moment(seq)
            if at is None or (before is not None and at < before):
                late.append((word, checksum(seq)))
            elif word not in went or at > went[word] + WITHIN:
                went[word] = at
                on.append((word, checksum(seq)))
        mark = _moved(mark, batch[NUMBERS])
    over = {word for word, at in went.items() if mark is not None and at + WITHIN < mark}
    gone = {w for w, at in went.items() if mark is not None and at == earlier.get(w) and at + WITHIN + PART <= mark}
    recent = {word: Maybe(at) if word in over else at for word, at in went.items() if word not in gone}
    return {"recent": recent, "recent.watermark": _global(mark), "once": _sums(on), "late": _sums(late)}


def _table(history: list[Batch]) -> dict[str, Held | Waiting]:
    latest: dict[str, int] = {}
    newest: dict[str, dict[str, int]] = {}
    joined, own = list[tuple[str, int]](), list[tuple[str, int]]()
    for batch in history:
        joined += [(word, pair(seq, latest.get(word))) for word, seq in batch[OTHERS]]
        own += [(word, pair(seq, latest[word])) for word, seq in batch[NUMBERS] if word in latest]
        latest |= dict(batch[NUMBERS])
        for word, seq in batch[NUMBERS]:
            if word not in newest or score(seq) >= newest[word]["score"]:
                newest[word] = {"seq": seq, "score": score(seq)}
    held = {word: {"seq": seq, "check": checksum(seq)} for word, seq in latest.items()}
    return {"latest": held, "newest": newest, "joined": _sums(joined), "own": _sums(own)}


def _changes(history: list[Batch]) -> dict[str, Held | Waiting]:
    by_word, latest = dict[str, Counter[int]](), dict[str, int]()
    for word, seq in [row for batch in history for row in batch[NUMBERS]]:
        adds = change(seq) == "insert"
        by_word.setdefault(word, Counter())[seq] += 1 if adds else -1
        latest.pop(word, None)
        latest |= {word: seq} if adds else {}
    numbers = {word: sum(rows.values()) for word, rows in by_word.items()}
    sizes = {word: n for word, n in numbers.items() if n > 0}
    listed = {word: n if n > 0 else None for word, n in numbers.items() if n}  # null: deletions came first
    held = {
        word: {
            "total": sum(seq * number for seq, number in by_word[word].items()),
            "least": min(seq for seq, number in by_word[word].items() if number > 0),
        }
        for word in sizes
    }
    joined = {word: {"seq": seq, "n": sizes.get(word)} for word, seq in latest.items()}
    rows = {word: {"seq": seq} for word, seq in latest.items()}
    having = Counter(sizes.values())
    shared = {word: {"n": n, "words": having[n]} for word, n in sizes.items()}
    index = dict[tuple[int | None, int], AnyOrder]()
    for word, n in listed.items():
        part, _ = _PART(word)
        for at, entry in (((n, part), (word, None)), ((n, part % DIRECTORIES), (None, part))):
            if entry not in index.get(at, ()):
                index[at] = AnyOrder((*index.get(at, ()), entry))
    held_too = {"joined": joined, "shared": shared, "sizes.by.n": index}
    return {"held": held, "sizes": sizes, "having": having, "rows": rows, **held_too}


def _filled(history: list[Batch]) -> dict[str, Held | Waiting]:
    counts, totals = Counter(CONTENT), Counter[str]()
    for batch in history:
        words = [word for word, _ in batch[NUMBERS]]
        counts.update(words)
        for word in {*words}:
            totals[first_letter(word)] += counts[word]
    return {"counts": dict(counts), "totals": dict(totals)}


def _backfill(history: list[Batch]) -> dict[str, Held | Waiting]:
    """Of the states that are new, too: as if they had been there from the beginning."""
    counts, sums, by_word = Counter[str](), Counter[str](), defaultdict[str, list[int]](list)
    for batch in history:
        for word, seq in [row for rows in batch.values() for row in rows]:
            counts[word] += 1
            sums[word] += checksum(seq)
        for word, seq in batch[NUMBERS]:
            by_word[word].append(seq)
    letters = defaultdict[str, dict[str, int]](lambda: {"n": 0, "total": 0})
    for word, total in sums.items():
        letters[first_letter(word)]["n"] += 1
        letters[first_letter(word)]["total"] += total
    marks = {
        word: {"least": min(seqs), "greatest": max(seqs), "scores": sorted({score(seq) for seq in seqs})}
        for word, seqs in by_word.items()
    }
    runs = {word: {"n": n, "sum": sums[word]} for word, n in counts.items()}
    return {"counts": dict(counts), "sums": dict(sums), "runs": runs, "letters": dict(letters), "marks": marks}


def _upserts(history: list[Batch]) -> dict[str, Held | Waiting]:
    latest: dict[str, int | None] = {}
    for batch in history:
        latest |= {word: body(seq) for word, seq in batch[NUMBERS]}
    rows = {word: seq for word, seq in latest.items() if seq is not None}
    lettered = dict[str, list[int]]()
    for word, seq in rows.items():
        lettered.setdefault(first_letter(word), []).append(seq)
    letters = {key: {"n": len(each), "total": sum(each), "least": min(each)} for key, each in lettered.items()}
    scores = Counter(map(score, rows.values()))
    return {"rows": {word: {"seq": seq} for word, seq in rows.items()}, "letters": letters, "scores": dict(scores)}


def _stateful(history: list[Batch]) -> dict[str, Held | Waiting]:
    runs: dict[str, dict[str, int]] = {}
    ranks: dict[str, int] = {}
    for batch in history:
        for word, seq in batch[NUMBERS]:
            run = runs.setdefault(word, {"n": 0, "sum": 0})
            run["n"] += 1
            run["sum"] += checksum(seq)
            ranks[word[0]] = ranks.get(word[0], 0) + run["n"]
    checkpoint = None if not history else json.dumps(sum(ranks.values()))
    return {"runs": dict(runs), "ranks": dict(ranks), "checkpoint": _global(checkpoint)}


def _several(history: list[Batch]) -> dict[str, Held | Waiting]:
    by_word: dict[str, list[int]] = {}
    totals: dict[str, dict[str, int]] = {}
    for batch in history:
        for word, seq in batch[NUMBERS]:
            by_word.setdefault(word, []).append(seq)
        for word in dict(batch[NUMBERS]):
            known = totals.setdefault(first_letter(word), {"n": 0, "greatest": -1})
            known["n"] += len(by_word[word])
            known["greatest"] = max(known["greatest"], sum(by_word[word]))
    everything = [row for batch in history for row in batch[NUMBERS]]
    top = max(everything, key=lambda row: score(row[1]))[0] if everything else None
    whole = {"n": len(everything), "top": top}
    stats = {word: _described(numbers) for word, numbers in by_word.items()}
    return {"stats": stats, "whole": {(): whole} if history else {}, "totals": totals}


def _described(numbers: list[int]) -> dict[str, Any]:
    mean = sum(numbers) / len(numbers)
    latest = max(reversed(numbers), key=score)  # of several the last
    squares = sum((number - mean) ** 2 for number in numbers)
    return {
        "n": len(numbers),
        "total": sum(numbers),
        "least": min(numbers),
        "first": numbers[0],
        "last": numbers[-1],
        "all": numbers,
        "scores": sorted({score(number) for number in numbers}),
        "high": max(numbers, key=score),  # of several the first
        "low": min(numbers, key=score),
        "apart": rounded(math.sqrt(squares / (len(numbers) - 1))) if len(numbers) > 1 else None,
        "variance": rounded(squares / len(numbers)),
        "mean": rounded(mean),
        "best": sorted(numbers, reverse=True)[:2],
        "latest": {"score": score(latest), "seq": latest},
        "odd": sum(number % 2 for number in numbers),
        "oddest": [number for number in sorted(numbers, reverse=True) if number % 2][:1],
        "middle": float(statistics.median(numbers)),
    }


def rounded(value: Any) -> Any:
    """Without the last digits of a double: these depend on the order of the operations."""
    return round(value, 9) if isinstance(value, float) else value


LOWER, UPPER = BETWEEN
BUCKET = max(UPPER - LOWER, timedelta(minutes=1))
"""Tuples whose times lie in one bucket leave together when none of them can meet a partner any more (decision 20)."""


T = TypeVar("T")
TimeOf = Callable[[int], datetime | None]


@dataclass(frozen=True)
class _Joined(Generic[T]):
    """The tuples of two streams that are joined by time, and the watermarks: of each stream, and of the join.

    Of those that came in time: the batch, the word, the number, and what decides on their partners."""

    came: Mapping[str, list[tuple[int, str, int, T]]]
    late: Mapping[str, list[tuple[str, int]]]
    marks: Mapping[str, datetime | None]
    low: datetime | None

    def states(self) -> dict[str, Held | Waiting]:
        """Return the contents that all joins have: of the watermarks, and of the streams of late tuples."""
        return {
            "pairs.left.watermark": _global(self.marks[NUMBERS]),
            "pairs.right.watermark": _global(self.marks[OTHERS]),
            "lateLeft": _sums(self.late[NUMBERS]),
            "lateRight": _sums(self.late[OTHERS]),
        }


def _joined(
    history: list[Batch],
    time_of: TimeOf,
    moved: Callable[[datetime | None, Iterable[Row]], datetime | None],
    kept: Callable[[datetime, datetime | None], T | None],
) -> _Joined[T]:
    """`kept` gives what is kept of a time, by the watermark of the join before its batch; None if it is late."""
    came: dict[str, list[tuple[int, str, int, T]]] = {NUMBERS: [], OTHERS: []}
    late: dict[str, list[tuple[str, int]]] = {NUMBERS: [], OTHERS: []}
    marks: dict[str, datetime | None] = {NUMBERS: None, OTHERS: None}
    low: datetime | None = None
    for batch in history:
        txid = batch.txid
        for stream, rows in batch.items():
            for word, seq in rows:
                at = time_of(seq)
                if at is None or (held := kept(at, low)) is None:
                    late[stream].append((word, checksum(seq)))
                else:
                    came[stream].append((txid, word, seq, held))
        marks = {stream: moved(mark, batch[stream]) for stream, mark in marks.items()}
        known = [mark for mark in marks.values() if mark is not None]
        low = min(known) if len(known) == 2 else None
    return _Joined(came, late, marks, low)


def _interval(history: list[Batch], outer: tuple[bool, bool]) -> dict[str, Held | Waiting]:
    joined = _joined(history, moment, _moved, lambda at, low: at if low is None or at >= low else None)
    came, low = joined.came, joined.low
    met: set[int] = set()
    left = list[tuple[str, int]]()
    for _, word, seq, at in came[NUMBERS]:
        for _, other, right, when in came[OTHERS]:
            if word == other and LOWER <= when - at <= UPPER:
                left.append((word, pair(seq, right)))
                met |= {seq, right}
    for stream, leaves, wait in zip((NUMBERS, OTHERS), outer, (UPPER, -LOWER), strict=True):
        for _, word, seq, at in came[stream]:
            closed = low is not None and EPOCH + ((at - EPOCH) // BUCKET + 1) * BUCKET + wait <= low
            if leaves and closed and seq not in met:
                left.append((word, pair(seq, None) if stream == NUMBERS else pair(None, seq)))
    return {"pairs": _waiting(came, low), "matched": _sums(left), **joined.states()}


def _waiting(came: Mapping[str, list[tuple[int, str, int, datetime]]], low: datetime | None) -> Waiting:
    """Needed are those that a tuple may still come for which is not late."""
    sides = {("left", UPPER): came[NUMBERS], ("right", -LOWER): came[OTHERS]}
    rows = [(side, word, txid, seq, at + wait) for (side, wait), all_ in sides.items() for txid, word, seq, at in all_]
    needed = frozenset(row[:4] for row in rows if low is None or row[4] >= low)
    return Waiting(needed, frozenset(row[:4] for row in rows), BUCKET)


def _window_join(history: list[Batch], outer: tuple[bool, bool]) -> dict[str, Held | Waiting]:
    def moved(mark: datetime | None, rows: Iterable[Row]) -> datetime | None:
        return _onward(mark, rows, together)

    joined = _joined(history, together, moved, lambda at, low: _starts(at, SLIDES, low) or None)
    came, low = joined.came, joined.low
    inside: dict[str, dict[tuple[datetime, str], list[int | None]]] = {NUMBERS: {}, OTHERS: {}}
    for stream, tuples in came.items():
        for _, word, seq, starts in tuples:
            for start in starts:
                if not _open(start, SLIDES, low):
                    inside[stream].setdefault((start, word), []).append(seq)
    matched = list[tuple[str, int]]()
    for start, word in {**inside[NUMBERS], **inside[OTHERS]}:
        left, right = (inside[stream].get((start, word), []) for stream in (NUMBERS, OTHERS))
        left, right = left or [None] * outer[1], right or [None] * outer[0]
        matched += [(word, pair_in(start, one, other)) for one in left for other in right]
    waiting = frozenset(
        (side, word, txid, seq)
        for side, stream in (("left", NUMBERS), ("right", OTHERS))
        for txid, word, seq, starts in came[stream]
        if any(_open(start, SLIDES, low) for start in starts)
    )
    pairs = Waiting(waiting, waiting, timedelta(microseconds=SLIDES.slide))
    return {"pairs": pairs, "matched": _sums(matched), **joined.states()}


def _sessions(history: list[Batch], with_late: bool) -> dict[str, Held | Waiting]:
    mark: datetime | None = None
    visits: dict[str, list[list[tuple[datetime, int]]]] = {}
    closed, late = list[tuple[str, int]](), list[tuple[str, int]]()
    for batch in history:
        before = mark
        mark = _onward(mark, batch[NUMBERS])
        for word, seq in batch[NUMBERS]:
            at = onward(seq)
            if at is None or (before is not None and at + GAP <= before):
                late.append((word, checksum(seq)))
                continue
            own = visits.setdefault(word, [])
            met = [session for session in own if any(abs(at - other) < GAP for other, _ in session)]
            own[:] = [session for session in own if session not in met]
            own.append(sorted([(at, checksum(seq)), *(row for session in met for row in session)]))
        for word, own in visits.items():
            for session in [s for s in own if mark is not None and s[-1][0] + GAP <= mark]:
                own.remove(session)
                total = sum(check for _, check in session)
                closed.append((word, visit(session[0][0], session[-1][0] + GAP, len(session), total)))
    held = {
        word: [
            {"start": s[0][0], "end": s[-1][0] + GAP, "held": {"n": len(s), "sum": sum(check for _, check in s)}}
            for s in sorted(own)
        ]
        for word, own in visits.items()
        if own
    }
    sums = {"closed": _sums(closed), **({"late": _sums(late)} if with_late else {})}
    return {"visits": held, "visits.watermark": _global(mark), **sums}


@dataclass
class _Clock:
    """What one word of the flow "timers" has: a value and timers."""

    value: dict[str, int] | None = None
    timers: dict[str, datetime] = dataclass_field(default_factory=dict)

    def take(self, effect: Effect) -> None:
        """Do what a tuple or a timer does, in this order: it stops timers, and sets others."""
        for name in effect.stops:
            self.timers.pop(name, None)
        self.timers |= effect.sets


def _clocks(history: list[Batch]) -> tuple[dict[str, _Clock], list[tuple[str, int]], datetime | None]:
    """The clocks of all words, everything that was emitted, and the watermark."""
    clocks, emitted, mark = defaultdict[str, _Clock](_Clock), list[tuple[str, int]](), None
    for batch in history:
        before, mark = mark, _onward(mark, batch[NUMBERS])
        for word, seq in batch[NUMBERS]:
            clock, effect = clocks[word], winding(seq, onward(seq))
            clock.value = None if effect.removes else added(clock.value, checksum(seq))
            clock.take(effect)
            emitted.append((word, noted(checksum(seq), before)))
        for word, clock in clocks.items() if mark is not None else ():
            while due := sorted((at, name) for name, at in clock.timers.items() if at <= mark):
                at, name = due[0]
                del clock.timers[name]
                effect = ringing(at, name)
                clock.value = added(clock.value, effect.check)
                clock.take(effect)
                emitted.append((word, noted(effect.check, mark)))
    return clocks, emitted, mark


def _timers(history: list[Batch]) -> dict[str, Held | Waiting]:
    clocks, emitted, mark = _clocks(history)
    rings = {word: clock.value for word, clock in clocks.items() if clock.value is not None}
    return {"rings": rings, "rings.watermark": _global(mark), "rung": _sums(emitted)}


def _timed(history: list[Batch]) -> int:
    return sum(bool(clock.timers) for clock in _clocks(history)[0].values())


_BYTES = dict(zip(KEYS, encode_keys(pa.table({"word": KEYS})).to_pylist(), strict=True))
"""Keys whose timers have the same time are in the order of these."""


def _reminded(history: list[Batch]) -> tuple[dict[str, _Clock], list[tuple[str, int]]]:
    """The clocks of all words, and everything that was emitted."""
    clocks, emitted = defaultdict[str, _Clock](_Clock), list[tuple[str, int]]()
    for batch in history:
        now = EPOCH + timedelta(microseconds=round(batch.time * 1_000_000))
        due = sorted((min(c.timers.values()), _BYTES[word], word) for word, c in clocks.items() if c.timers)
        due = [each for each in due if each[0] <= now]
        until = now if len(due) <= AT_ONCE else due[AT_ONCE][0]  # those of other keys come first in a later batch
        known = {word for *_, word in due[:AT_ONCE]} | {word for word, _ in batch[NUMBERS]}
        for word, seq in batch[NUMBERS]:
            clock, effect = clocks[word], promising(seq, now)
            clock.value = None if effect.removes else added(clock.value, checksum(seq))
            clock.take(effect)
            emitted.append((word, stamped(checksum(seq), now)))
        for _ in range(AT_ONCE):
            timers = [(at, _BYTES[word], name, word) for word in known for name, at in clocks[word].timers.items()]
            at, _, name, word = min(timers, default=(until, b"", "", ""))
            if not word or at > until:
                break
            del clocks[word].timers[name]
            effect = reminding(at, name)
            clocks[word].value = added(clocks[word].value, effect.check)
            clocks[word].take(effect)
            emitted.append((word, stamped(effect.check, now)))
    return clocks, emitted


def _reminders(history: list[Batch]) -> dict[str, Held | Waiting]:
    clocks, emitted = _reminded(history)
    notes = {word: clock.value for word, clock in clocks.items() if clock.value is not None}
    return {"notes": notes, "told": _sums(emitted)}


def _noted(history: list[Batch]) -> int:
    return sum(bool(clock.timers) for clock in _reminded(history)[0].values())


def _owed(history: list[Batch]) -> int:
    clocks, _ = _reminded(history)
    return sum(name != "someday" for clock in clocks.values() for name in clock.timers)


def _early(history: list[Batch]) -> dict[str, Held | Waiting]:
    mark: datetime | None = None
    slides, chains = defaultdict[Any, list[int]](list), defaultdict[Any, list[Any]](list)
    panes = defaultdict[Any, list[Any]](list)
    done, pool = dict[Any, Any](), list[tuple[str, datetime, int]]()
    for batch in history:
        txid = batch.txid
        before, mark = mark, _onward(mark, batch[NUMBERS])
        for word, seq in batch[NUMBERS]:
            at, check = onward(seq), checksum(seq)
            if at is None:
                continue
            for start in _starts(at, SLIDES, before):
                slides[start, word].append(check)
            for start in _starts(at, CHAINS, before):
                chains[start, word].append((at, check))
            pane = EPOCH + (at - EPOCH) // _SLIDE * _SLIDE
            if _open(pane, CHAINS, before):
                panes[pane, word, txid].append({"tuple": {"check": check}, "time": at})
            if before is None or at + GAP > before:
                pool.append((word, at, check))
        for (start, word), session in _runs(pool).items():
            if mark is not None and session[-1][1] + GAP <= mark:
                done[start, word] = session
                pool = [row for row in pool if row not in session]
    visits = {**done, **_runs(pool)}
    opened = defaultdict[str, list[Any]](list)
    for (start, word), session in _runs(pool).items():
        opened[word].append({"start": start, "end": session[-1][1] + GAP, "held": _both(s[2] for s in session)})
    return {
        "slides": {key: _both(checks) for key, checks in slides.items() if _open(key[0], SLIDES, mark)},
        "chains": {key: rows for key, rows in panes.items() if _open(key[0], CHAINS, mark)},
        "visits": dict(opened),
        **{f"{name}.watermark": _global(mark) for name in ("slides", "chains", "visits")},
        "slideTable": {key: _ending(key[0] + _LONG[SLIDES], **_both(checks)) for key, checks in slides.items()},
        "visitTable": {
            key: _ending(rows[-1][1] + GAP, **_both(row[2] for row in rows)) for key, rows in visits.items()
        },
        "chainTable": {key: _ending(key[0] + _LONG[CHAINS], chain=_chain(rows)) for key, rows in chains.items()},
        "slideSums": _sums([(word, sum(checks)) for (_, word), checks in slides.items()]),
    }


_SLIDE = timedelta(microseconds=CHAINS.slide)
"""The length of a pane, too: it is half a window."""
_LONG = {window: timedelta(microseconds=window.length) for window in (SLIDES, CHAINS)}


def _starts(at: datetime, window: TimeWindow, before: datetime | None) -> list[datetime]:
    """The starts of the windows of a time that were open before its batch."""
    slide = timedelta(microseconds=window.slide)
    last = EPOCH + (at - EPOCH) // slide * slide
    starts = [last - back * slide for back in range(_LONG[window] // slide)]
    return [start for start in starts if start + _LONG[window] > at and _open(start, window, before)]


def _open(start: datetime, window: TimeWindow, mark: datetime | None) -> bool:
    return mark is None or start + _LONG[window] > mark


def _runs(rows: list[tuple[str, datetime, int]]) -> dict[tuple[datetime, str], list[tuple[str, datetime, int]]]:
    """The sessions of these tuples, by start and word."""
    found = dict[tuple[datetime, str], list[tuple[str, datetime, int]]]()
    run = list[tuple[str, datetime, int]]()
    for row in sorted(rows):
        if not run or run[-1][0] != row[0] or row[1] - run[-1][1] >= GAP:
            run = found.setdefault((row[1], row[0]), [])
        run.append(row)
    return found


def _both(checks: Iterable[int]) -> dict[str, int]:
    checks = [*checks]
    return {"n": len(checks), "sum": sum(checks)}


def _ending(end: datetime, **values: int) -> dict[str, Any]:
    return {"windowEnd": end, **values}


def _chain(rows: list[tuple[datetime, int]]) -> int:
    """What a reducer makes of tuples in the order of their times; of equal times in the order in which they came."""
    value = 0
    for _, check in sorted(rows, key=lambda row: row[0]):
        value = chained(value, check)
    return value


def _onward(
    mark: datetime | None, rows: Iterable[Row], time_of: Callable[[int], datetime | None] = onward
) -> datetime | None:
    """The watermark after these tuples of a stream whose times go on."""
    times = [at - SLACK for _, seq in rows if (at := time_of(seq)) is not None]
    return max([*times, *([mark] if mark is not None else [])], default=None)


def _moved(mark: datetime | None, rows: Iterable[Row]) -> datetime | None:
    """The watermark after these tuples."""
    times = [at - LATENESS for _, seq in rows if (at := moment(seq)) is not None]
    return max([*times, *([mark] if mark is not None else [])], default=None)


def _global(value: Any) -> Held:
    return {} if value is None else {(): value}


def _sums(rows: Iterable[tuple[str, int]]) -> Held:
    found: dict[str, dict[str, int]] = {}
    for word, check in rows:
        sums = found.setdefault(word, {"n": 0, "sum": 0})
        sums["n"] += 1
        sums["sum"] += check
    return dict(found)


_OUTER = {"inner": (False, False), "left": (True, False), "right": (False, True), "full": (True, True)}

MEANINGS: dict[str, Callable[[list[Batch]], dict[str, Held | Waiting]]] = {
    **{flow: partial(_words, more=more) for flow, more in WORDS.items()},
    "recent": _recent,
    "table": _table,
    "bootstrap": _table,
    "several": _several,
    "stateful": _stateful,
    "sessions": partial(_sessions, with_late=False),
    "sessions late": partial(_sessions, with_late=True),
    **{f"interval {kind}": partial(_interval, outer=outer) for kind, outer in _OUTER.items()},
    **{f"window join {kind}": partial(_window_join, outer=_OUTER[kind]) for kind in ("inner", "full")},
    "changes": _changes,
    "upserts": _upserts,
    "timers": _timers,
    "reminders": _reminders,
    "early": _early,
    "filled": _filled,
    "backfill": _backfill,
    "before a backfill": _backfill,
}
"""What the states of each flow hold after these batches."""

DUE: dict[tuple[str, str], Callable[[list[Batch]], int]] = {
    ("timers", "rings"): _timed,
    ("reminders", "notes"): _noted,
}
"""The number of keys that are due at some time, for each state of which not every key is."""

OWED: dict[str, Callable[[list[Batch]], int]] = {"reminders": _owed}
"""The number of timers that must fire before a schedule of the flow ends, though its sources are silent."""
