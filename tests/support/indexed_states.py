"""States with indexes in each store, for tests, and what each read by a field has to find."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.state.backing.maps import SqliteMap
from tests.support.postgres import PostgresServer
from tests.support.server import RedisServer
from trident import (
    Count,
    TridentTopology,
)
from trident.reads.state_view import StateView
from trident.state import (
    BackingMapState,
    DeltaMapState,
    MemoryMapState,
    PostgresMapState,
    RedisMapState,
    SqliteMapState,
)

GROUPS = ("a", "b", "c", None)
PLACES = ("memory", "redis", "sqlite", "delta", "postgres", "backing")
Make = Callable[[str], Any]


@pytest.fixture
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    """Return a function that returns a state of a place and a kind, such as ``memory opaque``."""

    def made(which: str) -> Any:
        place, kind = which.split()
        if place == "redis":
            server: RedisServer = request.getfixturevalue("shared_redis")
            return getattr(RedisMapState, kind)(server.url, buckets=4)
        if place == "postgres":
            database: PostgresServer = request.getfixturevalue("postgres")
            return getattr(PostgresMapState, kind)(database.url)
        if place == "backing":
            return getattr(BackingMapState, kind)(partial(SqliteMap, str(tmp_path / "own.db")))
        return {
            "memory": getattr(MemoryMapState, kind),
            "sqlite": lambda: getattr(SqliteMapState, kind)(tmp_path / "states.sqlite"),
            "delta": lambda: getattr(DeltaMapState, kind)(str(tmp_path / "states")),
        }[place]()

    return made


def tables(topology: TridentTopology, spout: Any, state: Any) -> None:
    """Add states with indexes: a table by two fields, alone and together, and counts by their value."""
    changes = topology.newStream("s", spout).asChanges("kind")
    changes.toTable("id", state, name="rows", index=["g", "v", ("v", "g")])
    changes.groupBy("v").persistentAggregate(state, Count(), "n", name="counts", index="n")


def check(view: Callable[[str], StateView], rows: Mapping[int, Any]) -> None:
    """Compare reads by each value with the rows that have it."""
    check_rows(view("rows"), rows)
    counts = view("counts")
    numbers = dict(counts.items())
    for number in (1, 2):
        found = ((v, n) for v, n in numbers.items() if n == number)
        assert sorted(counts.by("n", number), key=str) == sorted(found, key=str)


def check_rows(table: StateView, rows: Mapping[int, Any]) -> None:
    for group in GROUPS:
        assert ids_of(table.by("g", group)) == sorted(key for key, (_, g, _) in rows.items() if g == group)
    for value in (-4, 0, 3, None):
        assert ids_of(table.by("v", value)) == sorted(key for key, (_, _, v) in rows.items() if v == value)
        both = table.by(["v", "g"], (value, "a"))
        assert dict(both) == {key: (g, v) for key, g, v in rows.values() if (v, g) == (value, "a")}


def ids_of(found: list[tuple[Any, Any]]) -> list[Any]:
    return [key for key, _ in found]
