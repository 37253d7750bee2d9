"""``FromJson`` on the embedded engine, against a function written by hand with ``json.loads`` for the same fields."""

import json
import random
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from benchmarks.bench import Bench
from benchmarks.row import Row
from benchmarks.timing import median
from benchmarks.workload import SEED, Workload
from trident import FromJson, TridentTopology
from trident.spouts import FixedBatchSpout

ALL, FLAT = 3.0, 1.5
"""The least speed, as a multiple of the function's: for all fields of an order, and for three plain ones."""

FIELDS = (
    "id string, customer struct<id:bigint,name:string,address:struct<city:string,zip:string>>, shop string, "
    "status string, at timestamp, items array<struct<sku:string,qty:int,price:decimal(10,2)>>, total decimal(12,2), "
    "note string"
)
FEW_FIELDS = "id string, shop string, weight double"


def json_values(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each way in turn, round after round, and compare every field of every order.

    The seconds are those of the processor: all of the work is in this process.
    """
    orders = [_make_order(random.Random(f"{SEED}/{number}"), number) for number in range(bench.scale.lines // 5)]
    spout = FixedBatchSpout("value binary", [[(order,) for order in orders]])
    for name, what, fields, by_hand, target in (
        ("json.all", "eight fields of orders, nested, with decimals and times", FIELDS, all_by_hand, ALL),
        ("json.flat", "three plain fields of orders", FEW_FIELDS, few_by_hand, FLAT),
    ):
        seconds: dict[str, list[float]] = {"FromJson": [], "by hand": []}
        for number in bench.scale.turns:
            took, table = _run(spout, FromJson(fields), None)
            other, expected = _run(spout, by_hand, fields)
            assert table.equals(expected) and table.num_rows == len(orders), f"{name}: the orders differ"
            print(f"    round {number or 'to warm up'}: {took:.2f} s, by hand {other:.2f} s", flush=True)
            if number:
                seconds["FromJson"].append(took)
                seconds["by hand"].append(other)
        ours, hand = (len(orders) / median(each) for each in seconds.values())
        yield Row(name, f"{what}; against a function with json.loads", ours, hand, "messages/s", target)


def all_by_hand(value: bytes) -> Any:
    order = json.loads(value)
    items = [{**item, "price": Decimal(str(item["price"]))} for item in order["items"]]
    total, at = Decimal(str(order["total"])), datetime.fromisoformat(order["at"])
    return order["id"], order["customer"], order["shop"], order["status"], at, items, total, order.get("note")


def few_by_hand(value: bytes) -> Any:
    order = json.loads(value)
    return order["id"], order["shop"], order["weight"]


def _make_order(draw: random.Random, number: int) -> bytes:
    time_of_day = f"{draw.randint(0, 23):02}:04:{draw.randint(0, 59):02}{draw.choice(['Z', '+01:00', '-05:30'])}"
    address = {"city": draw.choice(["Ulm", "Rom", "Århus"]), **({"zip": "89073"} if draw.random() < 0.5 else {})}
    order = {
        "id": f"o{number}",
        "customer": {"id": draw.randint(1, 200), "name": f"n{draw.randint(1, 200)}", "address": address},
        "shop": f"s{draw.randint(1, 9)}",
        "status": draw.choice(["NEW", "PAID", "SHIPPED"]),
        "at": f"2026-03-28T{time_of_day}",
        "items": [
            {"sku": f"k{draw.randint(1, 30)}", "qty": draw.randint(1, 4), "price": draw.randint(1, 9999) / 100}
            for _ in range(draw.randint(1, 3))
        ],
        "total": draw.randint(1, 99_999) / 100,
        "weight": draw.random() * 100,
        **({"note": "leave it at the door"} if draw.random() < 0.2 else {}),
    }
    return json.dumps(order).encode()


def _run(spout: FixedBatchSpout, function: Callable[..., Any], fields: str | None) -> tuple[float, pa.Table]:
    topology, tables = TridentTopology(), list[pa.Table]()
    values = topology.newStream("orders", spout)
    read = values.each("value", function) if fields is None else values.each("value", function, fields)
    names = [name for name in read.fields if name != "value"]

    def keep(table: pa.Table, txid: int, attempt: int) -> None:
        tables.append(table)

    read.project(*names).foreachArrow(keep, name="orders")
    with topology.start(engine="embedded", name="json") as running:
        start = time.process_time()
        running.processAllAvailable()
        seconds = time.process_time() - start
    return seconds, pa.concat_tables(tables).combine_chunks()
