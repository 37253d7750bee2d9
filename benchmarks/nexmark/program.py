"""One query as a program: started, run over all events and read, here or in a process that is killed on the way."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import SparkSession

from benchmarks.check import WrongAnswerError
from benchmarks.nexmark import queries
from benchmarks.nexmark.events import Events
from benchmarks.nexmark.tables import Nexmark
from benchmarks.session import bench_spark
from tests.support.kafka import connector_jars
from trident import publishedFiles
from trident.base import crash_points
from trident.plan.topology_protocol import EngineName


def run(events: Events, query: str, engine: EngineName, folder: Path, spark: SparkSession | None = None) -> pa.Table:
    """Run a query over all events, or over those that an earlier run in the folder left, and return its result."""
    nexmark = Nexmark(events, str(folder / "out"))
    getattr(queries, query)(nexmark)
    place = str(folder / "checkpoint")
    session = None if engine == "embedded" else spark
    with nexmark.topology.start(session, engine=engine, name=query, checkpointLocation=place) as running:
        running.processAllAvailable()
        if "result" in running.states:
            return running.state("result").toArrow()
    return ds.dataset(publishedFiles(nexmark.out)).to_table()


def run_killed(events: Events, query: str, engine: EngineName, folder: Path, point: str) -> None:
    """Run a query in a process of its own that is killed at a point of a batch, such as ``freeze.after:5``.

    Raises WrongAnswerError if the process ended in another way.
    """
    command = [sys.executable, "-m", "benchmarks.nexmark.program", events.folder, query, engine, str(folder)]
    killed = subprocess.run(command, env={**os.environ, crash_points.VARIABLE: point}, capture_output=True, text=True)
    if killed.returncode != -signal.SIGKILL:
        raise WrongAnswerError(f"{query}, {engine}: not killed at {point}: {killed.returncode} {killed.stderr[-2000:]}")


def session(events: Events, folder: Path) -> SparkSession:
    """Return a session that reads the events from where they are."""
    return bench_spark(folder, connector_jars() if events.servers else [])


def main(folder: str, query: str, engine: EngineName, work: str) -> None:
    events = Events.load(Path(folder))
    with tempfile.TemporaryDirectory() as temporary:
        spark = None if engine == "embedded" else session(events, Path(temporary))
        run(events, query, engine, Path(work), spark)


if __name__ == "__main__":
    main(*sys.argv[1:])  # type: ignore[arg-type]
