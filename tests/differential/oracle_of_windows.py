"""What leaves a window with a batch, by plain Python over all batches up to it."""

import math
from typing import Any

from tests.differential import functions as use
from tests.differential.oracle import emitted, evaluate
from tests.differential.plan import Plan, Row, Step, names


def left(plan: Plan, at: int, batch: int) -> list[Row]:
    """The results of a window that leave with a batch."""
    step = plan.steps[at]
    (source,) = step.sources
    fields = names(plan.steps[source].fields)
    by, n = [fields.index(name) for name in step.args["group"]], fields.index("n")
    batches = [[row for part in evaluate(plan, each)[source] for row in part] for each in range(batch + 1)]
    return (_counted if step.args["kind"] == "count" else _timed)(step, batches, by, n)


def _counted(step: Step, batches: list[list[Row]], by: list[int], n: int) -> list[Row]:
    length, slide, seen, found = step.args["length"], step.args["slide"], dict[Row, int](), list[Row]()
    for rows in batches:
        found = []
        for row in rows:
            key = tuple(row[place] for place in by)
            seen[key] = seen.get(key, 0) + 1
            found += [(*key, min(length, seen[key]))] if seen[key] % slide == 0 else []
    return found


def _timed(step: Step, batches: list[list[Row]], by: list[int], n: int) -> list[Row]:
    """A tuple is in every window around its time that had not ended when the batch before it was done."""
    length, slide, mark, inside = step.args["length"], step.args["slide"], -math.inf, dict[Row, list[Any]]()
    gone = list[Row]()
    for rows in batches:
        before = mark
        for row in (row for row in rows if row[n] is not None):
            for start in range(row[n] - length + 1, row[n] + 1):
                if start % slide == 0 and start + length > before:
                    inside.setdefault((start, *(row[place] for place in by)), []).append(row[n])
            mark = max(mark, row[n] - step.args["lateness"])
        gone = [key for key in inside if before < key[0] + length <= mark]
    values = [(key, emitted(step.args["aggregator"], inside[key])[0]) for key in gone]
    return [(use.moment(key[0]), use.moment(key[0] + length), *key[1:], v) for key, v in values if v is not None]
