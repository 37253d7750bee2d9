"""A topology of orders whose states lie in memory, in Redis, in SQLite and in a table, with all types of values."""

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from trident import Average, Count, Max, Sum, TridentTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState, SqliteMapState

FIELDS = (
    "id long, person string, city string, amount decimal(10,2), score double, day date, at timestamp, "
    "local timestamp_ntz, tags array<string>, prices map<string,int>, place struct<street string, no int>, "
    "seal binary, paid boolean"
)

PEOPLE = ("ann", "bob", "cleo", "dora", "émile")
CITIES = ("rome", "oslo", None)


def order(number: int) -> tuple[Any, ...]:
    """Return an order; some of its values are null."""
    at = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC) + datetime.timedelta(
        hours=7 * number, microseconds=number
    )
    return (
        number,
        PEOPLE[number % 5],
        CITIES[number % 3],
        None if number % 7 == 0 else Decimal(number * 31 % 1000) / 4,
        None if number % 6 == 0 else float("nan") if number % 11 == 0 else number / 8,
        None if number % 9 == 0 else datetime.date(2026, 1, 1) + datetime.timedelta(days=number % 40),
        at,
        at.replace(tzinfo=None),
        None if number % 5 == 0 else [f"t{each}" for each in range(number % 4)] + [None] * (number % 2),
        {"a": number, "b": None} if number % 2 else {},
        None if number % 8 == 0 else (f"street {number % 3}", number % 10),
        bytes([number % 256, 0]),
        None if number % 10 == 0 else number % 2 == 0,
    )


def orders(redis: str, folder: Path) -> tuple[TridentTopology, FeederBatchSpout]:
    """Return the topology, and the feeder of its orders.

    States: `orders` (a table), `counts` (memory), `spent` (Redis, several aggregates), `visits` (SQLite, two keys),
    `total` (no key), `latest.seen` (a name with a dot).
    """
    topology, feeder = TridentTopology(), FeederBatchSpout(FIELDS)
    stream = topology.newStream("orders", feeder)
    stream.toTable("id", name="orders")
    stream.groupBy("person").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    stream.groupBy("person").persistentAggregate(
        RedisMapState.opaque(redis), {"sold": Count(), "money": Sum("amount"), "mean": Average("score")}, name="spent"
    )
    stream.groupBy("person, day").persistentAggregate(
        SqliteMapState.opaque(str(folder / "visits.sqlite")), Count(), "n", name="visits"
    )
    stream.persistentAggregate(MemoryMapState.opaque(), "id", Max(), "most", name="total")
    stream.groupBy("city").persistentAggregate(MemoryMapState.opaque(), "at", Max(), "seen", name="latest.seen")
    return topology, feeder
