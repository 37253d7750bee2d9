"""The time of each query on each engine and in the peers, in turn: by the clock, and of all processors."""

import json
import math
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
from pyspark.sql import SparkSession

from benchmarks.nexmark.events import Events
from benchmarks.nexmark.flink import VERSION, Flink, prepare
from benchmarks.nexmark.flink_queries import QUERIES
from benchmarks.nexmark.oracle import Oracle
from benchmarks.nexmark.program import run
from benchmarks.nexmark.structured import APPENDED, UPDATED, structured_streaming
from benchmarks.report import machine, save_bars, versions
from benchmarks.timing import Timed, median
from tests.support.processes import cpu_seconds
from trident.plan.topology_protocol import EngineName

SPARK, FLINK = "Structured Streaming", "Flink"
PEERS = (SPARK, FLINK)
Result = TypeVar("Result")

Run = Callable[[Events, Path], "pa.Table | None"]
"""Runs one query in an empty folder; None if its rows are thrown away."""


@dataclass(frozen=True)
class Times:
    """Medians of a query's rounds, by system: seconds by the clock, and seconds of processor time of all processes."""

    query: str
    events: int
    clock: Mapping[str, float]
    processor: Mapping[str, float]

    def ratio(self, system: str, peer: str) -> float | None:
        """Return how many times as many events a processor second has as in a peer, if that says the query."""
        return self.processor[peer] / self.processor[system] if peer in self.processor else None


def measure(
    events: Events,
    warm: Events,
    query: str,
    engines: Sequence[EngineName],
    rounds: int,
    spark: SparkSession | None,
    flink: Flink | None = None,
) -> Times:
    """Measure a query in turn on each engine and in the peers, after one run of each over few events.

    Raises WrongAnswerError if rows are not those of DuckDB.
    """
    for each in (events, warm) if flink else ():
        prepare(each)
    systems = dict(_systems(query, engines, spark, flink))
    for system in systems.values():
        _timed(partial(system, warm))
    oracles = {name: Oracle(events, ended=name == FLINK) for name in systems}
    clock: dict[str, list[float]] = {name: [] for name in systems}
    processor: dict[str, list[float]] = {name: [] for name in systems}
    for _ in range(rounds):
        for name, system in systems.items():
            rows, by_clock, of_processor = _timed(partial(system, events))
            clock[name].append(by_clock)
            processor[name].append(of_processor)
            if rows is not None:
                oracles[name].check(query, name, rows, ours=name not in PEERS)
    return Times(query, events.events, _medians(clock), _medians(processor))


def _systems(
    query: str, engines: Sequence[EngineName], spark: SparkSession | None, flink: Flink | None
) -> Iterator[tuple[str, Run]]:
    for engine in engines:
        yield engine, partial(_ours, query, engine, spark)
    if spark and query in {**APPENDED, **UPDATED}:
        yield SPARK, partial(_by_spark, query, spark)
    if flink and query in QUERIES:
        yield FLINK, partial(_by_flink, query, flink)


def _ours(query: str, engine: EngineName, spark: SparkSession | None, events: Events, folder: Path) -> pa.Table:
    return run(events, query, engine, folder, spark)


def _by_spark(query: str, spark: SparkSession, events: Events, folder: Path) -> pa.Table | None:
    return structured_streaming(spark, events, query, folder)


def _by_flink(query: str, flink: Flink, events: Events, folder: Path) -> pa.Table | None:
    return flink.run(events, query, folder)


def start_of_flink(flink: Flink, rounds: int) -> dict[str, float]:
    """Return the medians of a job over one row: each job begins so, and its figures contain it."""
    times = [_timed(flink.run_empty)[1:] for _ in range(rounds)]
    clock, processor = zip(*times, strict=True)
    return {"clock": median(clock), "processor": median(processor)}


def _timed(run: Callable[[Path], Result]) -> tuple[Result, float, float]:
    """Run in an empty folder, and return the result, seconds by the clock and of the processors."""
    with tempfile.TemporaryDirectory() as folder:
        before = cpu_seconds()
        with Timed() as timed:
            result = run(Path(folder))
        return result, timed.seconds, cpu_seconds() - before


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


def draw(times: Sequence[Times], path: Path) -> None:
    """Draw the processor seconds of each query by system; a system that cannot say a query has no bar there."""
    systems = dict.fromkeys(name for each in times for name in each.processor)
    bars = {system: [each.processor.get(system, math.nan) for each in times] for system in systems}
    title = f"Nexmark, {times[0].events:,} events: less is better"
    save_bars([each.query for each in times], bars, title, "processor seconds", path, width=14.0)


def table(times: Sequence[Times], report: Mapping[str, Any]) -> str:
    """Return the figures as Markdown: thousand events a second of the clock, then of processor time, by system."""
    systems = list(dict.fromkeys(name for each in times for name in each.clock))
    ours = [name for name in systems if name not in PEERS]
    pairs = [(name, peer) for peer in PEERS if peer in systems for name in ours]
    of = report["machine"]
    heads = ["query", *(f"{name}, {kind}" for kind in ("clock", "processor") for name in systems)]
    heads += [f"{name} / {peer}" for name, peer in pairs]
    lines = [
        f"{report['date'][:10]}, {of['cores']} cores ({of['cpu']}), "
        + ", ".join(f"{name} {number}" for name, number in report["versions"].items()),
        *(["", report["remark"]] if report.get("remark") else []),
        "",
        "Thousand events a second of the clock, and of the processor time of all processes, which the ratios compare.",
        *([_start(report["flink"])] if report.get("flink") else []),
        "",
        f"| {' | '.join(heads)} |",
        f"|---{'|---:' * (len(heads) - 1)}|",
    ]
    for each in times:
        figures = [_thousands(each, kind.get(name)) for kind in (each.clock, each.processor) for name in systems]
        ratios = ["" if (ratio := each.ratio(*pair)) is None else f"{ratio:.1f}" for pair in pairs]
        lines.append(f"| {' | '.join([each.query, *figures, *ratios])} |")
    return "\n".join(lines) + "\n"


def _start(flink: Mapping[str, Any]) -> str:
    return (
        f"Flink {VERSION}: each of its figures contains the start of a job. A job over one row takes "
        f"{flink['clock']:.1f} s by the clock, and {flink['processor']:.1f} s of the processors."
    )


def _thousands(of: Times, seconds: float | None) -> str:
    return "" if seconds is None else f"{of.events / seconds / 1_000:,.0f}"
