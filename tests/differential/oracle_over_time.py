"""What leaves dropDuplicates, a join with a table and an interval join with a batch, and what a state of several
aggregators holds after it, from all batches up to it."""

import math
from collections import Counter
from typing import Any

from tests.differential.oracle import bundled, evaluate, key_of, same
from tests.differential.plan import Plan, Row, Step, names

UNIT = 100
"""Seconds from one event time to the next; the field `n` counts them."""


def left_over_time(plan: Plan, at: int, batch: int) -> list[Row]:
    """The tuples that leave a verb with a batch: of dropDuplicates without event time only the keys, because any tuple
    of a key may be the one that goes on."""
    step = plan.steps[at]
    fields = [names(plan.steps[source].fields) for source in step.sources]
    batches = [
        [[row for part in evaluate(plan, each)[source] for row in part] for source in step.sources]
        for each in range(batch + 1)
    ]
    return _MEANINGS[step.verb](step, fields, batches)


def _dedup(step: Step, fields: list[tuple[str, ...]], batches: list[list[list[Row]]]) -> list[Row]:
    places = [fields[0].index(name) for name in step.args["keys"]]
    n = fields[0].index("n")
    went, mark, on = dict[Row, float](), -math.inf, list[Row]()
    for (rows,) in batches:
        on, before = [], mark
        for row in rows:
            key = key_of(row, places)
            if step.args["time"] is None:
                if key not in went:
                    went[key] = 0
                    on.append(key)
            elif row[n] is not None and UNIT * row[n] >= before:
                mark = max(mark, UNIT * row[n] - step.args["lateness"])
                if key not in went or UNIT * row[n] > went[key] + step.args["within"]:
                    went[key] = UNIT * row[n]
                    on.append(row)
    return on


def _table(step: Step, fields: list[tuple[str, ...]], batches: list[list[list[Row]]]) -> list[Row]:
    key, value = fields[0].index(step.args["key"]), fields[0].index(step.args["value"])
    asking = fields[1].index(step.args["asking"])
    latest, joined = dict[Any, Any](), list[Row]()
    for ours, theirs in batches:
        joined = [
            (*row, latest.get(row[asking])) for row in theirs if step.args["type"] == "left" or row[asking] in latest
        ]
        latest |= {row[key]: row[value] for row in ours}
    return joined


def _interval(step: Step, fields: list[tuple[str, ...]], batches: list[list[list[Row]]]) -> list[Row]:
    """What has left after the batch, without what had left before it."""
    now, before = (_all_pairs(step, fields, batches[:upto]) for upto in (len(batches), len(batches) - 1))
    return list((now - before).elements())


def _all_pairs(step: Step, fields: list[tuple[str, ...]], batches: list[list[list[Row]]]) -> Counter[Row]:
    lower, upper = step.args["between"]
    key, n = [own.index("word") for own in fields], [own.index("n") for own in fields]
    marks, low = [-math.inf, -math.inf], -math.inf
    came: list[list[Row]] = [[], []]
    for sides in batches:
        for side, rows in enumerate(sides):
            came[side] += [row for row in rows if row[n[side]] is not None and UNIT * row[n[side]] >= low]
        latest = [
            max((UNIT * row[n[side]] - step.args["lateness"] for row in rows if row[n[side]] is not None), default=mark)
            for side, (rows, mark) in enumerate(zip(sides, marks, strict=True))
        ]
        marks = [max(mark, new) for mark, new in zip(marks, latest, strict=True)]
        low = min(marks)
    outer = (step.args["type"] in ("left", "full"), step.args["type"] in ("right", "full"))
    gone, met = Counter[Row](), (set[int](), set[int]())
    for i, ours in enumerate(came[0]):
        for j, theirs in enumerate(came[1]):
            if ours[key[0]] == theirs[key[1]] and lower <= UNIT * (theirs[n[1]] - ours[n[0]]) <= upper:
                gone[_pair(ours, theirs, fields, key)] += 1
                met[0].add(i)
                met[1].add(j)
    bucket = max(upper - lower, 60)
    for side, wait in enumerate((max(upper, 0), max(-lower, 0))):
        for i, row in enumerate(came[side]):
            if outer[side] and i not in met[side] and (UNIT * row[n[side]] // bucket + 1) * bucket + wait <= low:
                gone[_pair(*((row, None) if side == 0 else (None, row)), fields, key)] += 1
    return gone


def _pair(ours: Row | None, theirs: Row | None, fields: list[tuple[str, ...]], key: list[int]) -> Row:
    """The key, then the other fields of both."""
    found = [(ours or theirs or ())[key[0] if ours is not None else key[1]]]
    for row, own, at in zip((ours, theirs), fields, key, strict=True):
        values = [None] * len(own) if row is None else row
        found += [same(value) for place, value in enumerate(values) if place != at]
    return tuple(found)


def _state(step: Step, fields: list[tuple[str, ...]], batches: list[list[list[Row]]]) -> list[Row]:
    """All that it holds."""
    return bundled(step, [row for (rows,) in batches for row in rows], fields[0])


_MEANINGS: dict[str, Any] = {"dedup": _dedup, "table": _table, "interval": _interval, "state": _state}
