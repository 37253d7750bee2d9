"""Compares each query's result with that of DuckDB, on each engine and after a driver was killed."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.nexmark.events import Events
from benchmarks.nexmark.flink import Flink, prepare
from benchmarks.nexmark.flink_queries import COMPARED
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.program import run, run_killed
from trident.plan.topology_protocol import EngineName

POINTS = ("run.after:4", "freeze.after:5", "committed.before:6")
"""The crash points at which drivers die, one a query: before a batch is frozen, after it, when its states have it."""


@dataclass(frozen=True)
class Checked:
    """A right result."""

    query: str
    engine: str
    rows: int
    killed: str = ""
    """The point at which the driver was killed, if it was."""


def check(
    events: Events, folder: Path, queries: Sequence[str], engine: EngineName, spark: SparkSession | None = None
) -> Iterator[Checked]:
    """Run queries on an engine. Raises WrongAnswerError at the first result that is not DuckDB's."""
    oracle = Oracle(events)
    for query in queries:
        rows = oracle.check(query, engine, run(events, query, engine, folder / f"{query}-{engine}", spark))
        yield Checked(query, engine, rows)


def check_killed(
    events: Events, folder: Path, queries: Sequence[str], engine: EngineName, spark: SparkSession | None = None
) -> Iterator[Checked]:
    """Run queries with a driver that is killed once, and then with another one."""
    oracle = Oracle(events)
    for query, point in zip(queries, itertools.cycle(POINTS), strict=False):
        place = folder / f"{query}-{engine}-killed"
        run_killed(events, query, engine, place, point)
        rows = oracle.check(query, f"{engine} killed at {point}", run(events, query, engine, place, spark))
        yield Checked(query, engine, rows, point)


def check_flink(events: Events, folder: Path, queries: Sequence[str], flink: Flink) -> Iterator[Checked]:
    """Run queries of which Flink's rows can be compared; of updated rows, those that are left in the end."""
    prepare(events)
    oracle = Oracle(events, ended=True)
    for query in queries:
        if query in COMPARED:
            found = flink.run(events, query, folder / f"{query}-flink", kept=True)
            yield Checked(query, "flink", oracle.check(query, "flink", found, ours=False))
