"""The time of each query on each engine and in Structured Streaming, in turn: by the clock, and of all processors."""

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.nexmark.events import Events
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.program import run
from benchmarks.nexmark.structured import APPENDED, UPDATED, structured_streaming
from benchmarks.report import machine, versions
from benchmarks.timing import Timed, median
from tests.support.processes import cpu_seconds
from trident.plan.topology_protocol import EngineName

PEER = "Structured Streaming"

Run = Callable[[Events, Path], "pa.Table | None"]
"""Runs one query in an empty folder; None if its rows are thrown away."""


@dataclass(frozen=True)
class Times:
    """Medians of a query's rounds, by system: seconds by the clock, and seconds of processor time of all processes."""

    query: str
    events: int
    clock: Mapping[str, float]
    processor: Mapping[str, float]

    def ratio(self, system: str) -> float | None:
        """Return how many times as many events a processor second has as in Structured Streaming, if that says it."""
        return self.processor[PEER] / self.processor[system] if PEER in self.processor else None


def measure(
    events: Events, warm: Events, query: str, engines: Sequence[EngineName], rounds: int, spark: SparkSession | None
) -> Times:
    """Measure a query in turn on each engine and in Structured Streaming, after one run of each over few events.

    Raises WrongAnswerError if rows are not those of DuckDB.
    """
    systems = dict(_systems(query, engines, spark))
    for system in systems.values():
        with tempfile.TemporaryDirectory() as folder:
            system(warm, Path(folder))
    oracle = Oracle(events)
    clock: dict[str, list[float]] = {name: [] for name in systems}
    processor: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, system in systems.items():
            with tempfile.TemporaryDirectory() as folder:
                before = cpu_seconds()
                with Timed() as timed:
                    rows = system(events, Path(folder))
                processor[name].append(cpu_seconds() - before)
                clock[name].append(timed.seconds)
                if rows is not None:
                    oracle.check(query, name, rows, ours=name != PEER)
    return Times(query, events.events, _medians(clock), _medians(processor))


def _systems(query: str, engines: Sequence[EngineName], spark: SparkSession | None) -> Iterator[tuple[str, Run]]:
    for engine in engines:
        yield engine, partial(_ours, query, engine, spark)
    if spark and query in {**APPENDED, **UPDATED}:
        yield PEER, partial(_theirs, query, spark)


def _ours(query: str, engine: EngineName, spark: SparkSession | None, events: Events, folder: Path) -> pa.Table:
    return run(events, query, engine, folder, spark)


def _theirs(query: str, spark: SparkSession, events: Events, folder: Path) -> pa.Table | None:
    return structured_streaming(spark, events, query, folder)


def _medians(seconds: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: median(each) for name, each in seconds.items()}


def write(times: Sequence[Times], notes: Mapping[str, Any], folder: Path) -> None:
    """Write ``nexmark.json`` and ``nexmark.md``, with the machine and the versions that the figures hold for."""
    folder.mkdir(parents=True, exist_ok=True)
    date = datetime.now(UTC).isoformat(timespec="seconds")
    report = {"machine": machine(), "versions": versions(), "date": date, **notes}
    report["queries"] = [asdict(each) for each in times]
    (folder / "nexmark.json").write_text(json.dumps(report, indent=1) + "\n")
    (folder / "nexmark.md").write_text(table(times, report))


def table(times: Sequence[Times], report: Mapping[str, Any]) -> str:
    """Return the figures as Markdown: thousand events a second of the clock, then of processor time, by system."""
    systems = list(dict.fromkeys(name for each in times for name in each.clock))
    ours = [name for name in systems if name != PEER]
    of = report["machine"]
    heads = ["query", *(f"{name}, {kind}" for kind in ("clock", "processor") for name in systems)]
    heads += [f"{name} / {PEER}" for name in ours]
    lines = [
        f"{report['date'][:10]}, {of['cores']} cores ({of['cpu']}), "
        + ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        *(["", report["remark"]] if report.get("remark") else []),
        "",
        "Thousand events a second of the clock, and of the processor time of all processes, which the ratios compare.",
        "",
        f"| {' | '.join(heads)} |",
        f"|---{'|---:' * (len(heads) - 1)}|",
    ]
    for each in times:
        figures = [_thousands(each, kind.get(name)) for kind in (each.clock, each.processor) for name in systems]
        ratios = ["" if (ratio := each.ratio(name)) is None else f"{ratio:.1f}" for name in ours]
        lines.append(f"| {' | '.join([each.query, *figures, *ratios])} |")
    return "\n".join(lines) + "\n"


def _thousands(of: Times, seconds: float | None) -> str:
    return "" if seconds is None else f"{of.events / seconds / 1_000:,.0f}"
