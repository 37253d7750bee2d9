"""``python -m benchmarks``: all rows, or some families of them, into ``benchmarks/results``."""

import argparse
import tempfile
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from benchmarks.bench import FULL, QUICK, Bench
from benchmarks.report import results_folder, write_report
from benchmarks.row import Row
from benchmarks.rows.aggregates import aggregates
from benchmarks.rows.aggregators import aggregators
from benchmarks.rows.auto import auto
from benchmarks.rows.bad_tuples import bad_tuples
from benchmarks.rows.carrier import carrier, carrier_tables
from benchmarks.rows.changes import changes
from benchmarks.rows.delta_state import delta_state
from benchmarks.rows.drpc import drpc
from benchmarks.rows.embedded import embedded
from benchmarks.rows.expressions import expressions
from benchmarks.rows.first_batch import first_batch
from benchmarks.rows.functions import functions
from benchmarks.rows.hostile import hostile
from benchmarks.rows.jdbc import jdbc
from benchmarks.rows.joins import joins
from benchmarks.rows.json_values import json_values
from benchmarks.rows.kafka import kafka
from benchmarks.rows.memory import memory
from benchmarks.rows.metrics_cost import metrics_cost
from benchmarks.rows.notes_cost import notes_cost
from benchmarks.rows.objects import objects
from benchmarks.rows.over_time import over_time
from benchmarks.rows.pandas import pandas
from benchmarks.rows.postgres_changes import postgres_changes
from benchmarks.rows.redis_streams import redis_streams
from benchmarks.rows.redis_update import redis_update
from benchmarks.rows.serving import serving
from benchmarks.rows.small_batches import small_batches
from benchmarks.rows.splits import splits
from benchmarks.rows.state_cost import keys, state_cost
from benchmarks.rows.tracking import tracking
from benchmarks.rows.windows import windows
from benchmarks.rows.word_count import word_count
from benchmarks.session import CONFS, bench_spark
from benchmarks.workload import Workload, make_workload
from tests.support.kafka import connector_jars
from tests.support.kafka import out_of_reach as kafka_out_of_reach
from tests.support.postgres import driver_jar
from tests.support.server import Aof, RedisServer

FAMILIES: dict[str, Callable[[Bench, Workload], Iterator[Row]]] = {
    "words.native": lambda bench, load: word_count(bench, load, "native"),
    "words.python": lambda bench, load: word_count(bench, load, "python"),
    "functions": functions,
    "json": json_values,
    "pandas": pandas,
    "expressions": expressions,
    "aggregates": aggregates,
    "aggregators": aggregators,
    "windows": windows,
    "time": over_time,
    "changes": changes,
    "small": small_batches,
    "embedded": embedded,
    "auto": auto,
    "first": first_batch,
    "join": joins,
    "split": splits,
    "bad": bad_tuples,
    "redis": redis_update,
    "streams": redis_streams,
    "drpc": drpc,
    "serving": serving,
    "hostile": hostile,
    "memory": memory,
    "metrics": metrics_cost,
    "notes": notes_cost,
    "keys.memory": lambda bench, load: keys(bench, "memory"),
    "keys.redis": lambda bench, load: keys(bench, "redis"),
    "state": state_cost,
    "carrier": carrier,
    "carrier.tables": carrier_tables,
    "delta-state": delta_state,
    "tracking": tracking,
    "kafka": kafka,
    "jdbc": jdbc,
    "slot": postgres_changes,
    "objects": objects,
}

AOF: Aof = "everysec"
"""How the server persists, for every engine alike."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data, one round: does everything run?")
    parser.add_argument("--only", nargs="+", choices=FAMILIES, default=list(FAMILIES), help="these families alone")
    parser.add_argument("--out", type=Path, help="folder for latest.json and latest.md")
    parser.add_argument("--remark", default="", help="what a reader has to know of this run: other work of the machine")
    asked = parser.parse_args()
    scale = QUICK if asked.quick else FULL
    out = results_folder(asked.out, asked.quick)
    with tempfile.TemporaryDirectory(prefix="trident-bench-") as name, RedisServer(Path(name, "redis"), AOF) as server:
        folder = Path(name)
        print("making the workload", flush=True)
        load = make_workload(folder / "load", scale.files, scale.lines)
        bench = Bench(bench_spark(folder, _jars(asked.only)), server, folder, scale)
        rows: list[Row] = []
        sizes = {"rounds": scale.rounds, "words": load.words, "batches": scale.files}
        notes = {**sizes, "appendfsync": AOF, "confs": CONFS, "remark": asked.remark}
        for family in asked.only:
            print(f"{family}:", flush=True)
            for row in FAMILIES[family](bench, load):
                rows.append(row)
                print(f"  {row.id}: {row.ours:.4g} {row.unit}, ratio {row.ratio}, met {row.ok}", flush=True)
            write_report(rows, notes, out)  # after each family: an error in a later one must not lose hours of figures
        bench.spark.stop()
    print((out / "latest.md").read_text())


def _jars(families: Collection[str]) -> list[Path]:
    """Return the connectors that plain Spark needs in these families, as far as they can be fetched."""
    jars = [] if "kafka" not in families or kafka_out_of_reach() else [*connector_jars()]
    driver = driver_jar()[0] if "jdbc" in families else None
    return [*jars, driver] if driver else jars


if __name__ == "__main__":
    main()
