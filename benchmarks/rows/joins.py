"""Joins within a batch, against the same joins as a user writes them with DataFrames."""

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.bench import Bench
from benchmarks.check import Counts, check_counts
from benchmarks.row import Row
from benchmarks.shop import Shop, make_shop
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import Count, JoinType, Stream, Sum, TridentTopology, expr
from trident.spouts import FileSpout
from trident.state import MemoryMapState

TARGET = 1.3

WHAT = {
    "inner": "inner join of two streams",
    "full": "full join of two large streams",
    "mixed": "join of three streams of which one may be missing",
}

SCHEMAS = {
    "orders": "id long, user long, amount long",
    "payments": "order_id long, paid long",
    "users": "user long, country string",
    "discounts": "user long, percent long",
}

STATUS = "CASE WHEN paid IS NULL THEN 'order' WHEN amount IS NULL THEN 'payment' ELSE 'both' END"


def joins(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each join by hand and as a topology, in turn, one batch after the other."""
    del load
    shop = make_shop(bench.folder / "shop", max(2, bench.scale.files // 4), bench.scale.lines * 5)
    for kind, expected in {"inner": shop.by_country, "full": shop.by_payment, "mixed": shop.by_discount}.items():
        took: dict[str, list[float]] = {"ours": [], "by hand": []}
        for number in bench.scale.turns:
            for name, run in {"by hand": _by_hand, "ours": _ours}.items():
                seconds, counts = run(bench, shop, kind)
                check_counts(f"join.{kind}, {name}", counts, expected)
                print(f"    round {number or 'to warm up'}: {name} {seconds:.2f} s", flush=True)
                if number:
                    took[name].append(seconds)
        what = f"{WHAT[kind]}, {shop.rows} tuples a batch, grouped into a memory state; against DataFrames by hand"
        yield Row(f"join.{kind}", what, median(took["ours"]), median(took["by hand"]), "s", TARGET, "at most")


# --- by hand -------------------------------------------------------------------------------------------------------

Frames = Callable[[str], DataFrame]


def _by_hand(bench: Bench, shop: Shop, kind: str) -> tuple[float, Counts]:
    """Return the seconds for all batches, one after the other; only the sums are kept."""
    spark = bench.spark
    results: list[pa.Table] = []
    with Timed() as timed:
        for number in range(shop.batches):

            def frame(of: str, number: int = number) -> DataFrame:
                return spark.read.schema(SCHEMAS[of]).parquet(shop.files(of)[number])

            results.append(_HAND[kind](frame).toArrow())
    totals: dict[str, int] = {}
    for row in pa.concat_tables(results).to_pylist():
        *key, total = row.values()
        name = "/".join(map(str, key))
        totals[name] = totals.get(name, 0) + total
    return timed.seconds, totals


def _hand_inner(frame: Frames) -> DataFrame:
    return frame("orders").join(frame("users"), "user").groupBy("country").agg(F.sum("amount"))


def _hand_full(frame: Frames) -> DataFrame:
    orders, payments = frame("orders"), frame("payments")
    both = orders.join(payments, orders["id"] == payments["order_id"], "full")
    return both.select(F.expr(STATUS).alias("status")).groupBy("status").count()


def _hand_mixed(frame: Frames) -> DataFrame:
    known = frame("orders").join(frame("users"), "user").join(frame("discounts"), "user", "left")
    return known.groupBy("country", "percent").agg(F.sum("amount"))


_HAND = {"inner": _hand_inner, "full": _hand_full, "mixed": _hand_mixed}


# --- ours ----------------------------------------------------------------------------------------------------------


def _ours(bench: Bench, shop: Shop, kind: str) -> tuple[float, Counts]:
    """Return the seconds from start to the last commit, one batch at a time."""
    topology = TridentTopology()

    def stream(of: str) -> Stream:
        files = FileSpout(f"{shop.folder / of}/*.parquet", format="parquet", schema=SCHEMAS[of], maxFilesPerBatch=1)
        return topology.newStream(of, files)

    joined, key, amount = _OURS[kind](topology, stream)
    aggregator = Sum() if amount else Count()
    joined.groupBy(key).persistentAggregate(MemoryMapState.opaque(), amount, aggregator, "total", name="totals")
    folder = bench.fresh()
    with Timed() as timed:
        running = topology.start(bench.spark, name="join", checkpointLocation=str(folder), maxSpoutPending=1)
        running.processAllAvailable()
    with running:
        totals = running.state("totals").toArrow()
    bench.drop(folder)
    rows = [list(row.values()) for row in totals.to_pylist()]
    return timed.seconds, {"/".join(map(str, key)): total for *key, total in rows}


Made = tuple[Stream, list[str], list[str]]
"""The joins, each with its group field and its summed field."""


def _our_inner(topology: TridentTopology, stream: Callable[[str], Stream]) -> Made:
    return stream("orders").join(stream("users"), "user"), ["country"], ["amount"]


def _our_full(topology: TridentTopology, stream: Callable[[str], Stream]) -> Made:
    both = stream("orders").join(stream("payments"), "id", otherKeys="order_id", joinType="full")
    return both.each(expr(STATUS), "status string"), ["status"], []


def _our_mixed(topology: TridentTopology, stream: Callable[[str], Stream]) -> Made:
    streams = [stream("orders"), stream("discounts"), stream("users")]
    types = [JoinType.INNER, JoinType.OUTER, JoinType.INNER]
    return topology.join(streams, "user", joinType=types), ["country", "percent"], ["amount"]


_OURS = {"inner": _our_inner, "full": _our_full, "mixed": _our_mixed}
