"""Compares each query's result with that of DuckDB, on each engine and after a driver was killed."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.nexmark.events import Events
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.program import run, run_killed
from trident.plan.topology_protocol import EngineName

POINTS = ("run.after:4", "freeze.after:5", "committed.before:6")
"""The crash points at which drivers die, one a query: before a batch is frozen, after it, when its states have it."""


@dataclass(frozen=True)
class Checked:
    """A right result."""

    query: str
    engine: EngineName
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
