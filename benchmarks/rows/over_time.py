"""dropDuplicates and interval joins, against Structured Streaming's own on the same files, Parquet in and out."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from benchmarks.bench import Bench
from benchmarks.check import WrongAnswerError
from benchmarks.orders import PAIRED, Orders, make_orders
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import Stream, TridentTopology, publishedFiles
from trident.spouts import FileSpout
from trident.state import MemoryMapState

TARGET = 1.0
SCHEMAS = {"orders": "id long, at timestamp, amount long", "payments": "id long, paidAt timestamp, paid long"}
WITHIN = "10 minutes"


def over_time(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each verb and its counterpart in turn, round after round, and compare every tuple that leaves."""
    del load
    orders = make_orders(bench.folder / "orders", bench.scale.files, bench.scale.lines)
    whats = {
        "dedup": "dropDuplicates by event time, a memory state; against dropDuplicatesWithinWatermark",
        "intervalJoin": "inner join of two streams by key and time, a memory state; against a stream-stream join",
    }
    for kind, what in whats.items():
        took: dict[str, list[float]] = {"ours": [], "Structured Streaming": []}
        for number in bench.scale.turns:
            for name, run in {"Structured Streaming": _theirs, "ours": _ours}.items():
                folder = bench.fresh()
                with Timed() as timed:
                    files = run(bench, orders, kind, folder)
                _check(f"{kind}, {name}", files(), orders, kind)
                bench.drop(folder)
                print(f"    round {number or 'to warm up'}: {name} {timed.seconds:.2f} s", flush=True)
                if number:
                    took[name].append(timed.seconds)
        rows = orders.rows_of(kind)
        ours, other = (rows / median(took[name]) for name in ("ours", "Structured Streaming"))
        yield Row(f"time.{kind}", f"{what}; Parquet to Parquet", ours, other, "tuples/s", TARGET)


Files = Callable[[], list[str]]
"""The Parquet files that a run wrote, looked up after the time was taken."""


def _check(who: str, files: list[str], orders: Orders, kind: str) -> None:
    """Compare all tuples with those that are right: every order once, or every payment once beside its order."""
    table = ds.dataset(files).to_table().sort_by("id")
    expected = orders.distinct if kind == "dedup" else orders.paid
    if not table.column("id").combine_chunks().equals(pa.array(expected)):
        raise WrongAnswerError(f"{who}: {table.num_rows} tuples, not {len(expected)}, or other ids")
    if kind == "intervalJoin" and not np.array_equal(table["amount"].to_numpy(), expected % PAIRED):
        raise WrongAnswerError(f"{who}: other orders beside the payments")


# --- ours -----------------------------------------------------------------------------------------------------------


def _ours(bench: Bench, orders: Orders, kind: str, folder: Path) -> Files:
    topology, out = TridentTopology(), str(folder / "out")

    def stream(of: str) -> Stream:
        files = FileSpout(str(orders.folder / of / "*.parquet"), "parquet", schema=SCHEMAS[of], maxFilesPerBatch=1)
        return topology.newStream(of, files)

    if kind == "dedup":
        stream("orders").dropDuplicates("id", MemoryMapState.opaque(), timestampField="at", within=WITHIN).writeParquet(
            out
        )
    else:
        stream("orders").intervalJoin(
            stream("payments"),
            "id",
            ("0 seconds", WITHIN),
            timestampField="at",
            otherTimestampField="paidAt",
            lateness=WITHIN,
        ).writeParquet(out)
    running = topology.start(bench.spark, name=kind, checkpointLocation=str(folder / "checkpoint"))
    running.processAllAvailable()
    running.stop()
    return lambda: publishedFiles(out)


# --- theirs ---------------------------------------------------------------------------------------------------------


def _theirs(bench: Bench, orders: Orders, kind: str, folder: Path) -> Files:
    def stream(of: str, time: str) -> DataFrame:
        reader = bench.spark.readStream.schema(SCHEMAS[of]).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(orders.folder / of)).withWatermark(time, WITHIN)

    made = stream("orders", "at")
    if kind == "dedup":
        result = made.dropDuplicatesWithinWatermark(["id"])
    else:
        payments = stream("payments", "paidAt").withColumnRenamed("id", "order")
        near = F.expr(f"paidAt >= at AND paidAt <= at + INTERVAL {WITHIN}")
        result = made.join(payments, (F.col("id") == F.col("order")) & near).drop("order")
    out = folder / "out"
    writer = result.writeStream.format("parquet").option("checkpointLocation", str(folder / "checkpoint"))
    writer.trigger(availableNow=True).start(str(out)).awaitTermination()
    return lambda: [str(file) for file in out.glob("*.parquet")]
