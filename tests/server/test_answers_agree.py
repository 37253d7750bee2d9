"""A view, HTTP and SQL agree on the entries by a field and on ranges of keys, page by page, also after restarts."""

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from operator import le, lt
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.soak import some_of
from trident import DRPCClient, TridentTopology
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import DeltaMapState, MemoryMapState, SqliteMapState
from trident.testing.local import start_local

VALUES: dict[str, list[Any]] = {
    "long": [None, 0, 1, -1, 9, 10, 2**63 - 1, -(2**63)],
    "string": [None, "", "a", "A", "aa", "a\0", "e\u0301", "é", "\uffff", "\U0001f40d", "1", "null", '"', "[1]", "a,b"],
    "double": [None, 0.0, -0.0, 1.5, -1.5, math.inf, -math.inf, math.nan, 5e-324],
    "decimal(10,2)": [None, Decimal("0.00"), Decimal("1.50"), Decimal("-1.50"), Decimal("99999999.99")],
    "date": [None, date(1970, 1, 1), date(1969, 12, 31), date(1, 1, 1), date(9999, 12, 31)],
    "timestamp": [None, datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC), datetime(2026, 11, 29, tzinfo=UTC)],
    "boolean": [None, True, False],
    "binary": [None, b"", b"\0", b"a", b"a\0", b"\xff"],
}

Key = tuple[Any, ...]
Ask = Callable[[int, str | None], Any]


def equal(key: Any) -> Key:
    """Return a key with one NaN and one zero."""
    given = tuple(key) if isinstance(key, tuple) else (key,)
    return tuple("NaN" if value != value else value + 0.0 if isinstance(value, float) else value for value in given)


def order(key: Key) -> list[tuple[int, Any]]:
    """Return a key of equal values as it is sorted: null first, NaN last, texts by their bytes."""
    ranks = {None: (0, 0), "NaN": (2, 0)}
    return [ranks.get(v) or (1, v.encode() if isinstance(v, str) else v) for v in key]


@dataclass
class Table:
    """A table with keys and a field of some types, and the rows that it is to have."""

    name: str
    kinds: list[str]
    by: str
    spout: FeederBatchSpout = field(init=False)
    rows: dict[Key, Key] = field(default_factory=dict)

    def __post_init__(self) -> None:
        fields = [f"k{at} {kind}" for at, kind in enumerate(self.kinds)]
        self.spout = FeederBatchSpout(", ".join([*fields, f"g {self.by}", "v long"]))

    def grow(self, dice: Random) -> None:
        """Feed a batch of new and changed rows."""
        batch = {equal(key): key for key in (self.key(dice) for _ in range(dice.randint(1, 25)))}
        new = {known: (*key, dice.choice(VALUES[self.by]), dice.randrange(3)) for known, key in batch.items()}
        self.spout.feed(list(new.values()), wait=True, timeout=30)
        self.rows |= {known: equal(row) for known, row in new.items()}

    def key(self, dice: Random) -> Key:
        return tuple(dice.choice(VALUES[kind]) for kind in self.kinds)

    def sorted(self, wanted: Callable[[Key], bool]) -> list[Key]:
        """Return the keys of the rows that are wanted, in order."""
        return sorted((key for key, row in self.rows.items() if wanted(row)), key=order)


@dataclass
class Doors:
    """The ways to ask for the entries of a table."""

    running: RunningTopology
    client: DRPCClient
    table: Table
    dice: Random

    def by(self, value: Any) -> Iterator[list[Key]]:
        """Yield the keys of the entries with a value, in order, from each door."""
        name, wide = self.table.name, len(self.table.kinds)
        view, keys = self.running.state(name), ", ".join(f"k{at}" for at in range(wide))
        yield [equal(key) for key, _ in view.by("g", value)]
        yield sorted(self._walk(lambda limit, after: view.by("g", value, limit=limit, after=after), 0), key=order)
        ask: Ask = lambda limit, after: self.client.by(name, "g", value, limit=limit, after=after)  # noqa: E731
        yield sorted(self._walk(ask, wide), key=order)
        where, args = ("is null", None) if value is None else ("= ?", [value])
        yield sorted(map(equal, self.running.sql(f"select {keys} from {name} where latest.g {where}", args)), key=order)

    def range(self, low: Any, high: Any, inclusive: Any) -> Iterator[list[Key]]:
        """Yield the keys of a range, from each door."""
        name, view, given = self.table.name, self.running.state(self.table.name), {"inclusive": inclusive}
        yield [equal(key) for key, _ in view.range(low, high, **given)]
        yield self._walk(lambda limit, after: view.range(low, high, limit=limit, after=after, **given), 0)
        ask: Ask = lambda limit, after: self.client.range(name, low, high, limit=limit, after=after, **given)  # noqa: E731
        yield self._walk(ask, len(self.table.kinds))

    def _walk(self, ask: Ask, fields: int) -> list[Key]:
        """Return the keys of all pages, which are pairs, or rows that begin with so many key fields."""
        found, after, limit = list[Key](), None, self.dice.choice((1, 3, 7, 100))
        while True:
            page = ask(limit, after)
            keys = [equal(tuple(row)[:fields] if fields else row[0]) for row in page]
            assert keys == sorted(keys, key=order)
            found, after = found + keys, page.after
            if after is None:
                return found
            assert len(keys) == limit


def check(doors: Doors) -> None:
    table, dice = doors.table, doors.dice
    for value in VALUES[table.by]:
        wanted = table.sorted(lambda row: equal(row[len(table.kinds)]) == equal(value))  # noqa: B023
        assert list(doors.by(value)) == [wanted] * 4, (table, value)
    for _ in range(3):
        low, high = sorted((table.key(dice), table.key(dice)), key=lambda key: order(equal(key)))
        inclusive = dice.choice(("left", "right", "both", "neither"))
        begin, end = order(equal(low)), order(equal(high))
        first, last = (le if inclusive in (side, "both") else lt for side in ("left", "right"))
        wanted = [key for key in table.sorted(lambda _: True) if first(begin, order(key)) and last(order(key), end)]
        if len(table.kinds) > 1:
            assert list(doors.range(low, high, inclusive)) == [wanted] * 3, (table, low, high, inclusive)
        elif low != (None,):  # as an end, null of one field says that there is none
            assert list(doors.range(*low, *high, inclusive)) == [wanted] * 3, (table, low, high, inclusive)


@contextmanager
def serving(topology: TridentTopology, folder: Path) -> Iterator[tuple[RunningTopology, DRPCClient]]:
    with (
        start_local(topology, name="agreeing", checkpointLocation=folder / "log") as running,
        running.serve() as server,
        DRPCClient(server.url) as client,
    ):
        yield running, client


@pytest.mark.parametrize("seed", some_of(range(30), [4]))
def test_each_door_gives_the_entries_that_a_filter_keeps(seed: int, tmp_path: Path) -> None:
    dice, topology = Random(seed), TridentTopology()
    tables = [
        Table(f"t{at}", dice.choices([*VALUES], k=dice.choice((1, 1, 2))), dice.choice([*VALUES])) for at in range(2)
    ]
    states = {
        "memory": MemoryMapState.opaque,
        "sqlite": lambda: SqliteMapState.opaque(tmp_path / "states.sqlite"),
        "delta": lambda: DeltaMapState.opaque(str(tmp_path / "states")),
    }
    for table in tables:
        keys = [f"k{at}" for at in range(len(table.kinds))]
        state = states[dice.choice([*states])]()
        topology.newStream(table.name, table.spout).toTable(keys, state, name=table.name, index="g")
    for _ in range(2):
        with serving(topology, tmp_path) as (running, client):
            for table in tables:
                table.grow(dice)
                running.processAllAvailable()
                check(Doors(running, client, table, dice))
