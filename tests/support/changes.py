"""Random histories of a table, as changes, and what aggregates of its rows come to, computed from whole tables."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from trident import Average, ChangeStream, CollectSet, Count, Max, Median, Min, Stream, Sum, TridentTopology

FIELDS = "id long, g string, v long, kind string"
Row = tuple[int, str | None, int | None]
Change = tuple[int, str | None, int | None, str]


@dataclass
class History:
    """A table that changes: its rows now by their ids, and the changes of each batch."""

    seed: int
    groups: tuple[str | None, ...] = ("a", "b", "c", None)
    rows: dict[int, Row] = field(default_factory=dict)
    batches: list[list[Change]] = field(default_factory=list)
    after: list[dict[int, Row]] = field(default_factory=list)
    """The rows after each batch."""

    def __post_init__(self) -> None:
        self._chance = Random(self.seed)
        self._ids = 0

    def grow(self, batches: int, most: int = 10) -> "History":
        """Draw further batches. A row may be inserted, updated and deleted within one batch."""
        chance = self._chance
        for _ in range(batches):
            self.batches.append([change for _ in range(chance.randint(0, most)) for change in self._change()])
            self.after.append(dict(self.rows))
        return self

    def _change(self) -> list[Change]:
        chance, rows = self._chance, self.rows
        what = chance.choice(("insert", "insert", "update", "update", "delete")) if rows else "insert"
        if what == "insert":
            self._ids += 1
            key = chance.randint(1, self._ids)  # the key of a deleted row may come again
            key = self._ids if key in rows else key
            rows[key] = self._row(key)
            return [(*rows[key], "insert")]
        key = chance.choice(sorted(rows))
        before = rows.pop(key)
        if what == "delete":
            return [(*before, "delete")]
        rows[key] = self._row(key)
        return [(*before, "update_preimage"), (*rows[key], "update_postimage")]

    def _row(self, key: int) -> Row:
        value = self._chance.randint(-5, 9)
        return key, self._chance.choice(self.groups), None if value == -5 else value


class Net:
    """A user's combiner that can take tuples away."""

    outputType = "long"

    def init(self, tuple: Any) -> int:
        return tuple.v or 0

    def combine(self, a: int, b: int) -> int:
        return a + b

    def zero(self) -> int:
        return 0

    def retract(self, a: int, b: int) -> int:
        return a - b


def program(topology: TridentTopology, stream: Stream, make: Callable[..., Any]) -> ChangeStream:
    """Add states over a stream of changes: aggregates, a table, aggregates of its changes and of another aggregate,
    and a join of both."""
    changes = stream.asChanges("kind")
    by_group = changes.groupBy("g")
    sizes = by_group.persistentAggregate(make(), Count(), "n", name="sizes")
    by_group.persistentAggregate(
        make(),
        {
            "total": Sum("v"),
            "mean": Average("v"),
            "least": Min("v"),
            "middle": Median("v"),
            "values": CollectSet("v"),
            "net": ("v", Net()),
        },
        name="several",
    )
    changes.persistentAggregate(make(), "v", Max(), "greatest", name="greatest")
    large = changes.filter("v", lambda v: v is not None and v > 2).each("v", lambda v: v * 2, "w long")
    large.groupBy("g").persistentAggregate(make(), "w", Sum(), "w", name="large")
    names = changes.map(lambda t: (t.g or "none").upper(), outputFields="name string")
    names.groupBy("name").persistentAggregate(make(), Count(), "n", name="names")
    table = changes.toTable("id", make(), name="rows")
    table.changes().groupBy("g").persistentAggregate(make(), "v", Sum(), "v", name="of_table")
    sizes.changes().groupBy("n").persistentAggregate(make(), Count(), "groups", name="having")
    table.join(sizes, "g").toTable("id", make(), name="beside")
    return changes


def expected(rows: Iterable[Row]) -> dict[str, dict[Any, Any]]:
    """Return what the states of `program` hold if the table has these rows."""
    held = list(rows)
    values = defaultdict[str | None, list[int]](list)
    sizes, large, names = Counter[Any](), defaultdict[Any, int](int), Counter[Any]()
    for _, group, value in held:
        sizes[group] += 1
        names[(group or "none").upper()] += 1
        values[group] += [] if value is None else [value]
        if value is not None and value > 2:
            large[group] += 2 * value
    several = {
        group: (
            sum(values[group]),
            statistics.fmean(values[group]) if values[group] else None,
            min(values[group], default=None),
            float(statistics.median(values[group])) if values[group] else None,
            sorted(set(values[group])),
            sum(values[group]),
        )
        for group in sizes
    }
    greatest = max((value for _, _, value in held if value is not None), default=None)
    return {
        "sizes": dict(sizes),
        "several": several,
        "greatest": {} if greatest is None else {(): greatest},
        "large": dict(large),
        "names": dict(names),
        "rows": {key: (group, value) for key, group, value in held},
        "beside": {key: (group, value, sizes[group]) for key, group, value in held if group is not None},
        "of_table": {group: sum(values[group]) for group in sizes},
        "having": dict(Counter(sizes.values())),
    }


def found(running: Any, states: Iterable[str]) -> dict[str, dict[Any, Any]]:
    """Return what the states hold, in the form of `expected`."""
    return {name: {key: _plain(value) for key, value in running.state(name).items()} for name in states}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def applied(rows: Mapping[Any, Any], changes: Iterable[Mapping[str, Any]], key: str) -> dict[Any, Any]:
    """Return the rows after changes. Fails if a change does not say what was there before."""
    now = dict(rows)
    for change in changes:
        kind, own = change["_change_type"], {name: change[name] for name in change if name != "_change_type"}
        if kind in ("delete", "update_preimage"):
            assert now.pop(own[key]) == own, change
        else:
            assert own[key] not in now, change
            now[own[key]] = own
    return now
