"""``python -m benchmarks.yahoo.latency``: how long an event waits until its view is in Redis.

A file of 500 events appears every 100 ms. Its latency is the time from then to the commit of the batch that has it.
``yahoo_latency.svg`` in ``benchmarks/results`` draws the percentiles.
"""

import argparse
import itertools
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks.report import RESULTS, save_bars
from benchmarks.session import bench_spark
from benchmarks.timing import percentile
from benchmarks.yahoo.by_hand import increments
from benchmarks.yahoo.events import Advertising, make_advertising
from benchmarks.yahoo.program import count_views
from tests.support.server import RedisServer
from trident import TridentTopology
from trident.plan.topology_protocol import EngineName

ROWS, EVERY = 500, 0.1
"""The events of a file, and the seconds from one file to the next."""
FILES = 1_000
"""A batch has all files that wait."""
SHARES = (50, 90, 99)
"""The percentiles that are shown."""
WARM_UP = 4
"""The first quarter of the files does not count."""

Commits = list[tuple[float, int]]
"""When each batch was committed, and its rows."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.yahoo.latency", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="for which files appear")
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder for the picture")
    asked = parser.parse_args()
    files, figures = int(asked.seconds / EVERY), dict[str, list[float]]()
    with tempfile.TemporaryDirectory(prefix="trident-yahoo-") as name, RedisServer(Path(name, "redis")) as server:
        spark = bench_spark(Path(name))
        data = make_advertising(Path(name, "made"), files * ROWS, files)
        print("| system | batches | p50 ms | p90 ms | p99 ms |\n|---|---:|---:|---:|---:|", flush=True)
        for system in ("embedded", "spark", "auto", "foreachBatch by hand"):
            server.client.flushall()
            data.put_campaigns(server.client)
            place = Path(name, system)
            Path(place, "events").mkdir(parents=True)
            arrived, commits = _run(system, data, place, server, spark)
            waited = latencies(arrived, commits)[files // WARM_UP :]
            figures[system] = [1_000 * percentile(waited, share) for share in SHARES]
            shown = " | ".join(f"{each:.0f}" for each in figures[system])
            print(f"| {system} | {len(commits)} | {shown} |", flush=True)
        spark.stop()
    bars = {f"p{share}": [each[number] for each in figures.values()] for number, share in enumerate(SHARES)}
    title = "From the arrival of an event to its view in Redis"
    save_bars([*figures], bars, title, "milliseconds", asked.out / "yahoo_latency.svg")


def latencies(arrived: Sequence[float], commits: Commits) -> list[float]:
    """Return the seconds from the arrival of each file to the commit of the batch with its last row.

    >>> latencies([0.0, 1.0, 2.0], [(0.5, 500), (3.0, 1000)])
    [0.5, 2.0, 1.0]
    """
    ends = list(itertools.accumulate(rows for _, rows in commits))
    found, batch = [], 0
    for number, time_of_file in enumerate(arrived, 1):
        while ends[batch] < number * ROWS:
            batch += 1
        found.append(commits[batch][0] - time_of_file)
    return found


def _run(
    system: str, data: Advertising, place: Path, server: RedisServer, spark: SparkSession
) -> tuple[list[float], Commits]:
    appearing = Advertising(str(place / "events"), data.campaigns, data.expected, data.events)
    if system == "foreachBatch by hand":
        return _by_hand(data, appearing, place, server, spark)
    return _ours(system, data, appearing, place, server, spark)  # type: ignore[arg-type]


def _ours(
    engine: EngineName,
    data: Advertising,
    appearing: Advertising,
    place: Path,
    server: RedisServer,
    spark: SparkSession,
) -> tuple[list[float], Commits]:
    commits: Commits = []

    def hear(event: dict[str, Any]) -> None:
        if event["event"] == "committed" and event["numInputRows"]:
            commits.append((time.monotonic(), event["numInputRows"]))

    topology = TridentTopology()
    count_views(topology, appearing.files, server.url, FILES)
    session = None if engine == "embedded" else spark
    with topology.start(session, engine=engine, name="yahoo", checkpointLocation=str(place / "log")) as running:
        running.progress.listen(hear)
        arrived = _appear(data, appearing)
        running.processAllAvailable()
        running.progress.flush(10)
    return arrived, commits


def _by_hand(
    data: Advertising, appearing: Advertising, place: Path, server: RedisServer, spark: SparkSession
) -> tuple[list[float], Commits]:
    done: dict[int, float] = {}
    writer = increments(spark, appearing, server.client, FILES, lambda batch: done.update({batch: time.monotonic()}))
    query = writer.option("checkpointLocation", str(place / "log")).start()
    arrived = _appear(data, appearing)
    query.processAllAvailable()
    rows = {each["batchId"]: each["numInputRows"] for each in query.recentProgress if each["numInputRows"]}
    query.stop()
    return arrived, [(done[batch], rows[batch]) for batch in sorted(rows)]


def _appear(data: Advertising, appearing: Advertising) -> list[float]:
    """Move a copy of each file into the folder, one after the other, and return when each one was there."""
    arrived, begin = [], time.monotonic()
    for number, file in enumerate(sorted(Path(data.folder).iterdir())):
        hidden = Path(appearing.folder, f".{file.name}")
        hidden.write_bytes(file.read_bytes())
        time.sleep(max(0.0, begin + number * EVERY - time.monotonic()))
        hidden.rename(Path(appearing.folder, file.name))
        arrived.append(time.monotonic())
    return arrived


if __name__ == "__main__":
    main()
