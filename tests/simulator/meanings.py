"""What the states of `verbs.py` must hold after each batch: from all tuples so far, by the plainest means.

Nothing of the library is used but the number of a part of an index, and nothing is carried from batch to batch.
"""

import json
import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from pyspark.sql.types import StringType, StructField, StructType

from tests.simulator.in_world import checksum, first_letter, moment, onward
from tests.simulator.spouts import Row
from tests.simulator.verbs import (
    BETWEEN,
    GAP,
    LATENESS,
    NUMBERS,
    OTHERS,
    SLACK,
    WITHIN,
    WORDS,
    body,
    change,
    pair,
    score,
    visit,
)
from trident.operations.references import PartOf

Batch = Mapping[str, list[Row]]
"""The tuples of each stream, in their order."""
Held = dict[Any, Any]
"""By key; a key of several fields is a tuple."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    """The tuples that wait in the state of an interval join: side, word, batch and number. A join may hold one for
    longer than it needs it, and none that came too late."""

    needed: frozenset[tuple[str, str, int, int]]
    allowed: frozenset[tuple[str, str, int, int]]


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
                if row["word"] != word or not bucket <= start < bucket + BUCKET // timedelta(microseconds=1):
                    return f"{row} waits under {word!r} and {bucket}"
    if len({*held}) != len(held):
        return f"a tuple waits twice: {sorted(held)}"
    missing, surplus = expected.needed - {*held}, {*held} - expected.allowed
    return f"{sorted(missing)} do not wait, and {sorted(surplus)} wait" if missing or surplus else ""


# --- each flow --------------------------------------------------------------------------------------------------------


def _words(history: list[Batch], more: tuple[str, ...]) -> dict[str, Held | Waiting]:
    counts, sums, totals, seen = Counter[str](), Counter[str](), Counter[str](), dict[str, int]()
    for txid, batch in enumerate(history, 1):
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
    joined, own = list[tuple[str, int]](), list[tuple[str, int]]()
    for batch in history:
        joined += [(word, pair(seq, latest.get(word))) for word, seq in batch[OTHERS]]
        own += [(word, pair(seq, latest[word])) for word, seq in batch[NUMBERS] if word in latest]
        latest |= dict(batch[NUMBERS])
    held = {word: {"seq": seq, "check": checksum(seq)} for word, seq in latest.items()}
    return {"latest": held, "joined": _sums(joined), "own": _sums(own)}


def _changes(history: list[Batch]) -> dict[str, Held | Waiting]:
    by_word, latest = dict[str, Counter[int]](), dict[str, int]()
    for word, seq in [row for batch in history for row in batch[NUMBERS]]:
        adds = change(seq) == "insert"
        by_word.setdefault(word, Counter())[seq] += 1 if adds else -1
        latest.pop(word, None)
        latest |= {word: seq} if adds else {}
    sizes = {word: sum(rows.values()) for word, rows in by_word.items() if sum(rows.values()) > 0}
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
    index = dict[tuple[int, int], AnyOrder]()
    for word, n in sizes.items():
        at = n, _PART(word)
        index[at] = AnyOrder((*index.get(at, ()), (word,)))
    held_too = {"joined": joined, "shared": shared, "sizes.by.n": index}
    return {"held": held, "sizes": sizes, "having": having, "rows": rows, **held_too}


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
        "middle": float(statistics.median(numbers)),
    }


def rounded(value: Any) -> Any:
    """Without the last digits of a double: these depend on the order of the operations."""
    return round(value, 9) if isinstance(value, float) else value


LOWER, UPPER = BETWEEN
BUCKET = max(UPPER - LOWER, timedelta(minutes=1))
"""Tuples whose times lie in one bucket leave together when none of them can meet a partner any more (decision 20)."""


def _interval(history: list[Batch], outer: tuple[bool, bool]) -> dict[str, Held | Waiting]:
    came: dict[str, list[tuple[int, str, int, datetime]]] = {NUMBERS: [], OTHERS: []}
    late: dict[str, list[tuple[str, int]]] = {NUMBERS: [], OTHERS: []}
    marks: dict[str, datetime | None] = {NUMBERS: None, OTHERS: None}
    low: datetime | None = None
    for txid, batch in enumerate(history, 1):
        for stream, rows in batch.items():
            for word, seq in rows:
                at = moment(seq)
                if at is None or (low is not None and at < low):
                    late[stream].append((word, checksum(seq)))
                else:
                    came[stream].append((txid, word, seq, at))
        marks = {stream: _moved(mark, batch[stream]) for stream, mark in marks.items()}
        known = [mark for mark in marks.values() if mark is not None]
        low = min(known) if len(known) == 2 else None
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
    return {
        "pairs": _waiting(came, low),
        "pairs.left.watermark": _global(marks[NUMBERS]),
        "pairs.right.watermark": _global(marks[OTHERS]),
        "matched": _sums(left),
        "lateLeft": _sums(late[NUMBERS]),
        "lateRight": _sums(late[OTHERS]),
    }


def _waiting(came: Mapping[str, list[tuple[int, str, int, datetime]]], low: datetime | None) -> Waiting:
    """Needed are those that a tuple may still come for which is not late."""
    sides = {("left", UPPER): came[NUMBERS], ("right", -LOWER): came[OTHERS]}
    rows = [(side, word, txid, seq, at + wait) for (side, wait), all_ in sides.items() for txid, word, seq, at in all_]
    needed = frozenset(row[:4] for row in rows if low is None or row[4] >= low)
    return Waiting(needed, frozenset(row[:4] for row in rows))


def _sessions(history: list[Batch], with_late: bool) -> dict[str, Held | Waiting]:
    mark: datetime | None = None
    visits: dict[str, list[list[tuple[datetime, int]]]] = {}
    closed, late = list[tuple[str, int]](), list[tuple[str, int]]()
    for batch in history:
        before = mark
        times = [at - SLACK for _, seq in batch[NUMBERS] if (at := onward(seq)) is not None]
        mark = max([*times, *([mark] if mark is not None else [])], default=None)
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
    "several": _several,
    "stateful": _stateful,
    "sessions": partial(_sessions, with_late=False),
    "sessions late": partial(_sessions, with_late=True),
    **{f"interval {kind}": partial(_interval, outer=outer) for kind, outer in _OUTER.items()},
    "changes": _changes,
    "upserts": _upserts,
}
"""What the states of each flow hold after these batches."""
