"""``python -m benchmarks.nexmark``: the queries of Nexmark, beside Structured Streaming; ``--check``: exactness."""

import argparse
import tempfile
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.nexmark.checking import check, check_flink, check_killed
from benchmarks.nexmark.events import Events, make_events
from benchmarks.nexmark.flink import Flink
from benchmarks.nexmark.oracle import ANSWERS
from benchmarks.nexmark.program import session
from benchmarks.nexmark.timed import Times, draw, measure, start_of_flink, write
from benchmarks.nexmark.topics import send
from benchmarks.report import RESULTS
from tests.support.kafka import KafkaBroker
from trident.plan.topology_protocol import EngineName

ENGINES: tuple[EngineName, ...] = ("embedded", "spark", "auto")
KILLED_ON_SPARK = ("q4", "q5", "q10", "q19")
"""A driver on Spark that is killed costs a session of its own: these have a join, windows, an output, a state."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.nexmark", description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare every row with DuckDB, also after kills")
    parser.add_argument("--events", type=int, default=500_000, help="persons, auctions and bids together")
    parser.add_argument("--batches", type=int, default=10, help="into which the events are divided")
    parser.add_argument(
        "--source", choices=("parquet", "kafka"), default="parquet", help="files, or topics of a broker"
    )
    parser.add_argument("--only", nargs="+", choices=ANSWERS, default=list(ANSWERS), help="these queries alone")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="these engines alone")
    parser.add_argument("--flink", action="store_true", help="Flink SQL too; its jars (200 MB) are fetched once")
    parser.add_argument("--rounds", type=int, default=3, help="of which the median is taken")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for nexmark.json, .md and .svg")
    parser.add_argument("--remark", default="", help="what a reader has to know of this run: other work of the machine")
    asked = parser.parse_args()
    if asked.source == "kafka" and not asked.check:
        parser.error("--source kafka: Structured Streaming reads files here, so give --check too")
    with tempfile.TemporaryDirectory(prefix="trident-nexmark-") as name, ExitStack() as stack:
        folder = Path(name)
        events = make_events(folder / "events", asked.events, asked.batches)
        if asked.source == "kafka":
            events = send(events, stack.enter_context(KafkaBroker(folder / "kafka")))
        spark = session(events, folder) if asked.engines != ["embedded"] or not asked.check else None
        flink = stack.enter_context(Flink(folder / "flink")) if asked.flink else None
        if asked.check:
            _check(asked, events, folder, spark, flink)
        else:
            _time(asked, events, make_events(folder / "warm", 10_000, 2), spark, flink)
        if spark:
            spark.stop()


def _check(
    asked: argparse.Namespace, events: Events, folder: Path, spark: SparkSession | None, flink: Flink | None
) -> None:
    for engine in asked.engines:
        killed = [query for query in asked.only if engine == "embedded" or query in KILLED_ON_SPARK]
        for done in check(events, folder, asked.only, engine, spark):
            print(f"{done.query} {engine}: {done.rows} rows, all right", flush=True)
        for done in check_killed(events, folder, killed, engine, spark):
            print(f"{done.query} {engine}, killed at {done.killed}: {done.rows} rows, all right", flush=True)
    for done in check_flink(events, folder, asked.only, flink) if flink else ():
        print(f"{done.query} {done.engine}: {done.rows} rows, all right", flush=True)


def _time(
    asked: argparse.Namespace, events: Events, warm: Events, spark: SparkSession | None, flink: Flink | None
) -> None:
    times: list[Times] = []
    notes = {name: vars(asked)[name] for name in ("events", "batches", "rounds", "remark")}
    for query in asked.only:
        times.append(measure(events, warm, query, asked.engines, asked.rounds, spark, flink))
        print(f"{query}: processor seconds {dict(times[-1].processor)}", flush=True)
        write(times, notes, asked.out)
    if flink:
        write(times, {**notes, "flink": start_of_flink(flink, asked.rounds)}, asked.out)
    draw(times, asked.out / "nexmark.svg")
    print((asked.out / "nexmark.md").read_text())


if __name__ == "__main__":
    main()
