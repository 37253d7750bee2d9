"""What a plan comes to, by the plainest Python there is: lists of tuples, a list a partition, no engine.

It says what the verbs mean, and shares no code with what it is compared with. Which partition a hash or a shuffle
brings a tuple to is nobody's business, so there the partitions are one heap and no later step may ask.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

from tests.differential import functions as use
from tests.differential.plan import OVER_TIME, Plan, Row, Step, names

Parts = list[list[Row]]


def evaluate(plan: Plan, batch: int) -> list[Parts]:
    """What each step gives for a batch."""
    found: list[Parts] = []
    for at, step in enumerate(plan.steps):
        if step.verb == "spout":
            found.append([list(plan.batches[at][batch])])
            continue
        before = [names(plan.steps[source].fields) for source in step.sources]
        found.append(VERBS[step.verb](step, [found[source] for source in step.sources], before))
    return found


def same(value: Any) -> Any:
    """A value as groups and joins see it: NaN is NaN, -0.0 is 0.0, null is null."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    return value


def key_of(row: Row, places: Sequence[int]) -> Row:
    return tuple(same(row[place]) for place in places)


def _places(fields: tuple[str, ...], wanted: Sequence[str]) -> list[int]:
    return [fields.index(name) for name in wanted]


# --- a tuple at a time -------------------------------------------------------------------------------------------


def _local(change: Callable[[Step, Row, tuple[str, ...]], list[Row]]) -> Any:
    def run(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
        return [[new for row in part for new in change(step, row, fields[0])] for part in sources[0]]

    return run


def _called(step: Step, row: Row, fields: tuple[str, ...]) -> Any:
    function = getattr(use, step.args["function"])
    return function(*[row[place] for place in _places(fields, step.args["inputs"])])


def _each(step: Step, row: Row, fields: tuple[str, ...]) -> list[Row]:
    before, outputs = dict(zip(fields, row, strict=True)), names(step.args["outputs"])
    after = [{**before, **dict(zip(outputs, new, strict=True))} for new in _map(step, row, fields)]
    return [tuple(values[name] for name in names(step.fields)) for values in after]


def _map(step: Step, row: Row, fields: tuple[str, ...]) -> list[Row]:
    gave = _called(step, row, fields)
    return [new if isinstance(new, tuple) else (new,) for new in (gave if step.args["many"] else [gave])]


def _filter(step: Step, row: Row, fields: tuple[str, ...]) -> list[Row]:
    return [row] if _called(step, row, fields) else []


def _filter_null(step: Step, row: Row, fields: tuple[str, ...]) -> list[Row]:
    return [] if None in [row[place] for place in _places(fields, step.args["inputs"])] else [row]


def _project(step: Step, row: Row, fields: tuple[str, ...]) -> list[Row]:
    return [tuple(row[place] for place in _places(fields, names(step.fields)))]


def _part(step: Step, row: Row, fields: tuple[str, ...]) -> list[Row]:
    sent = use.sort_out(*[row[place] for place in _places(fields, ("word", "n"))])
    return [new if isinstance(new, tuple) else (new,) for name, new in sent if name == step.args["stream"]]


# --- partitions --------------------------------------------------------------------------------------------------


def _heap(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    return [[row for part in sources[0] for row in part]]


def _broadcast(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    (everything,) = _heap(step, sources, fields)
    return [everything] * step.args["count"]


def _global(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    return [*_heap(step, sources, fields), *[[] for _ in range(step.args["count"] - 1)]]


def _partition(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    count = step.args["count"]
    found: Parts = [[] for _ in range(count)]
    (place,) = _places(fields[0], ["n"])
    for row in _heap(step, sources, fields)[0]:
        chosen = use.to_place(row[place], count)
        for each in chosen if isinstance(chosen, list) else [chosen]:
            found[each].append(row)
    return found


# --- aggregates --------------------------------------------------------------------------------------------------


def folded(kind: str, values: list[Any]) -> Any:
    """An aggregate of one field's values."""
    there = [value for value in values if value is not None]
    match kind:
        case "Count":
            return len(values)
        case "Sum":
            return sum(there)
        case "TotalOfSeries":
            return sum(there)
        case "SpreadOfSeries":
            return float(max(there) - min(there)) if there else None
        case "Min":
            return min(there, default=None)
        case "Max":
            return max(there, default=None)
        case "Longest":
            return max((value or "" for value in values), key=lambda word: (len(word), word), default="")
    raise KeyError(kind)


def emitted(kind: str, values: list[Any]) -> list[Any]:
    """What one member of a chain gives for the values of its field: any number of values."""
    if kind == "Seen":
        return sorted({value for value in values if value})
    return [100 + sum(value or 0 for value in values)] if kind == "Adding" else [folded(kind, values)]


def _chain(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    parts = sources[0] if step.args["scope"] == "partition" else _heap(step, sources, fields)
    by = _places(fields[0], step.args["group"])
    found: Parts = []
    for part in parts:
        groups: dict[Row, list[Row]] = {} if by else {(): []}
        for row in part:
            groups.setdefault(key_of(row, by), []).append(row)
        rows = []
        for members in groups.values():
            given = []
            for kind, inputs in step.args["members"]:
                of = _places(fields[0], inputs)
                given.append(emitted(kind, [row[of[0]] if of else None for row in members]))
            rows += [tuple(members[0][place] for place in by) + values for values in product(*given)]
        found.append(rows)
    return found


def _aggregate(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    (rows,) = _heap(step, sources, fields)
    by, of = _places(fields[0], step.args["group"]), _places(fields[0], step.args["inputs"])
    groups: dict[Row, list[Row]] = {} if by else {(): []}
    for row in rows:
        groups.setdefault(key_of(row, by), []).append(row)
    result = []
    for members in groups.values():
        values = [row[of[0]] if of else None for row in members]
        result.append(tuple(members[0][place] for place in by) + (folded(step.args["kind"], values),))
    return [result]


def _bundle(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    (rows,) = _heap(step, sources, fields)
    return [bundled(step, rows, fields[0])]


def bundled(step: Step, rows: list[Row], fields: tuple[str, ...]) -> list[Row]:
    """What several aggregators give for each group of these tuples."""
    by = _places(fields, step.args["group"])
    groups: dict[Row, list[Row]] = {} if by else {(): []}
    for row in rows:
        groups.setdefault(key_of(row, by), []).append(row)
    result = []
    for members in groups.values():
        values = [
            described(kind, [tuple(row[at] for at in _places(fields, inputs)) for row in members])
            for kind, inputs in step.args["members"]
        ]
        result.append(tuple(members[0][place] for place in by) + tuple(values))
    return result


def described(kind: str, rows: list[Row]) -> Any:
    """What an aggregator of a bundle gives for the tuples of a group, in their order."""
    there = [row[0] for row in rows if row and row[0] is not None]
    match kind:
        case "First" | "Last":
            return (rows[0] if kind == "First" else rows[-1])[0] if rows else None
        case "CollectList":
            return there
        case "CollectSet":
            return sorted(set(there))
        case "Latest":
            able = [row for row in rows if row[1] is not None]
            return max(reversed(able), key=lambda row: row[1]) if able else None  # of several the last
        case "MaxBy" | "MinBy":
            able = [row for row in rows if row[1] is not None]
            chosen = max if kind == "MaxBy" else min
            return chosen(able, key=lambda row: row[1])[0] if able else None  # of several the first
        case "Average":
            return sum(there) / len(there) if there else None
        case "TopK":
            return sorted(there, reverse=True)[:2]
        case "Median":
            return float(statistics.median(there)) if there else None
        case "StdDev" | "VarPop":
            free = len(there) - (kind == "StdDev")
            if free < 1:
                return None
            mean = sum(there) / len(there)
            variance = sum((value - mean) ** 2 for value in there) / free
            return math.sqrt(variance) if kind == "StdDev" else variance
    return folded(kind, [row[0] if row else None for row in rows])


def _extreme(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    (by,) = _places(fields[0], [step.args["by"]])
    how, found = step.args["how"], []
    for part in sources[0] if step.args["scope"] == "partition" else _heap(step, sources, fields):
        there = sorted((row[by] for row in part if row[by] is not None), key=use.ranked)
        rows = sorted(part, key=lambda row: [use.ranked(value) for value in row])
        nulls = [None] * (len(part) - len(there))
        if how in ("min", "max"):
            found.append(rows[:1] if how == "min" else rows[-1:])
        elif how in ("minBy", "maxBy"):
            found.append([(value,) for value in (there[:1] if how == "minBy" else there[-1:])])
        else:
            listed = [*(there if how == "first" else reversed(there)), *nulls]
            found.append([(value,) for value in listed[: step.args["count"]]])
    return found


# --- several streams ---------------------------------------------------------------------------------------------


def _merge(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    return [[row for parts in sources for part in parts for row in part]]


def _join(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    keys = [_places(own, [key]) for own, key in zip(fields, step.args["keys"], strict=True)]
    grouped: list[dict[Row, list[Row]]] = []
    for parts, own in zip(sources, keys, strict=True):
        groups: dict[Row, list[Row]] = {}
        for row in (row for part in parts for row in part):
            groups.setdefault(key_of(row, own), []).append(row)
        grouped.append(groups)
    result = []
    for key in dict.fromkeys(key for groups in grouped for key in groups):
        if any(kind == "inner" and key not in groups for kind, groups in zip(step.args["types"], grouped, strict=True)):
            continue
        sides: list[list[Row | None]] = [[*groups.get(key, [None])] for groups in grouped]
        result += [_joined_row(step, rows, keys, fields) for rows in product(*sides)]
    return [result]


def _joined_row(step: Step, rows: Sequence[Row | None], keys: list[list[int]], fields: list[tuple[str, ...]]) -> Row:
    if step.args["mode"] == "preserve":
        return tuple(v for row, own in zip(rows, fields, strict=True) for v in (row or (None,) * len(own)))
    key = next(row[own[0]] for row, own in zip(rows, keys, strict=True) if row is not None)
    rest = []
    for row, own, at in zip(rows, fields, keys, strict=True):
        rest += [None if row is None else row[place] for place in range(len(own)) if place not in at]
    return (key, *rest)


def _multi_reduce(step: Step, sources: list[Parts], fields: list[tuple[str, ...]]) -> Parts:
    left: dict[Row, list[Any]] = {}
    for at, (parts, own) in enumerate(zip(sources, fields, strict=True)):
        (by,), (of,) = _places(own, [step.args["groups"][at]]), _places(own, [step.args["inputs"][at]])
        for row in (row for part in parts for row in part):
            found = left.setdefault(key_of(row, [by]), [row[by], 0])
            found[1] += (row[of] or 0) * (1 if at == 0 else -1)
    return [[tuple(found) for found in left.values()]]


VERBS: dict[str, Callable[[Step, list[Parts], list[tuple[str, ...]]], Parts]] = {
    "each": _local(_each),
    "map": _local(_map),
    "filter": _local(_filter),
    "filterNull": _local(_filter_null),
    "project": _local(_project),
    "drop": _local(_project),
    "rename": _local(lambda step, row, fields: [row]),
    "part": _local(_part),
    "peek": _local(lambda step, row, fields: [row]),
    "shuffle": _heap,
    "partitionBy": _heap,
    "batchGlobal": _heap,
    "broadcast": _broadcast,
    "global": _global,
    "partition": _partition,
    "aggregate": _aggregate,
    "chain": _chain,
    "extreme": _extreme,
    "bundle": _bundle,
    **dict.fromkeys(("window", *OVER_TIME), lambda step, sources, fields: []),
    "multiReduce": _multi_reduce,
    "merge": _merge,
    "join": _join,
}
