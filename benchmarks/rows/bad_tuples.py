"""The cost of failing tuples: one topology over lines of which some cannot be parsed, and over good lines only."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.bench import Bench
from benchmarks.check import WrongAnswerError, check_counts
from benchmarks.row import Row
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import DeadLetter, Sum, TridentTopology
from trident.spouts import FileSpout
from trident.state import MemoryMapState

BATCHES = 12
ROWS = 27_000
"""The lines of a batch, as in a month of flights."""

KEYS = 16
SHARE = 40
"""Every so many lines one is bad: 2.5 %."""

FEW = 4
"""The bad lines of a batch that has few."""


@dataclass(frozen=True)
class Lines:
    """Parquet files of lines ``key,number``, a file a batch; `expected` sums up the numbers of the good ones by key."""

    folder: Path
    bad: int
    expected: dict[str, int]


def parsed(line: str) -> tuple[str, int]:
    """Return key and number of a line."""
    key, number = line.split(",")
    return key, int(number)


POLICIES: dict[str, Any] = {"fail": "fail", "skip": "skip", "letters": DeadLetter(attempts=0)}


def bad_tuples(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure runs with and without bad lines in turn, round after round, and compare every sum."""
    rows, files = min(ROWS, bench.scale.lines), min(BATCHES, bench.scale.files)
    folder = bench.fresh()
    good = _lines(folder / "good", files, rows, 0)
    few = _lines(folder / "few", files, rows, rows // FEW)
    many = _lines(folder / "many", files, rows, SHARE)
    runs = {
        "good": ("fail", good),
        "good.skip": ("skip", good),
        "good.letters": ("letters", good),
        "skip": ("skip", many),
        "letters": ("letters", many),
        "few.skip": ("skip", few),
        "few.letters": ("letters", few),
    }
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for number in bench.scale.turns:
        for name, (policy, lines) in runs.items():
            took = _run(bench, policy, lines)
            if number:
                seconds[name].append(took)
    bench.drop(folder)
    share = f"{100 / SHARE:g} % of {rows} lines a batch"
    each = f"{FEW} of {rows} lines a batch"
    for name, what, other, target in (
        ("good.skip", "no bad line, onError='skip'; against no policy", "good", 1.05),
        ("good.letters", "no bad line, DeadLetter; against no policy", "good", 1.05),
        ("skip", f"{share} bad, onError='skip'; against no bad line and no policy", "good", 1.3),
        ("letters", f"{share} bad, DeadLetter, kept in a state; against no bad line", "good.letters", 1.3),
        ("few.skip", f"{each} bad, onError='skip'; against no bad line and no policy", "good", 1.05),
        ("few.letters", f"{each} bad, DeadLetter, kept in a state; against no bad line", "good.letters", 1.05),
    ):
        yield Row(f"bad.{name}", what, median(seconds[name]), median(seconds[other]), "s", target, "at most")


def _lines(folder: Path, files: int, rows: int, every: int) -> Lines:
    """Write the files; one of `every` lines is bad, none if `every` is 0."""
    folder.mkdir()
    bad, expected = 0, dict[str, int]()
    for file in range(files):
        lines = []
        for row in range(rows):
            key, number = f"key{row % KEYS}", row * 7919 % 100_003
            if every and row % every == every // 2:
                bad += 1
                lines.append(f"{key},n/a")
            else:
                expected[key] = expected.get(key, 0) + number
                lines.append(f"{key},{number}")
        pq.write_table(pa.table({"line": lines}), folder / f"batch-{file:03d}.parquet")
    return Lines(folder, bad, expected)


def _run(bench: Bench, policy: str, lines: Lines) -> float:
    """Return the seconds from start to the last commit, one batch at a time; check sums, letters and skipped tuples."""
    topology = TridentTopology()
    spout = FileSpout(lines.folder / "*.parquet", format="parquet", schema="line string", maxFilesPerBatch=1)
    (
        topology.newStream("lines", spout)
        .each("line", parsed, "key string, n long", onError=POLICIES[policy])
        .groupBy("key")
        .persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "total", name="totals")
    )
    if policy == "letters":
        topology.deadLetterState(MemoryMapState.opaque(), most=10 * BATCHES * ROWS)
    folder = bench.fresh()
    with Timed() as timed:
        running = topology.start(bench.spark, name="bad", checkpointLocation=str(folder), maxSpoutPending=1)
        running.processAllAvailable()
    with running:
        totals = running.state("totals").toArrow()
        kept = running.state("deadLetters").toArrow().num_rows if policy == "letters" else 0
        left_out = sum(sum(event.get("skipped", {}).values()) for event in running.recentProgress)
    bench.drop(folder)
    check_counts(policy, dict(zip(totals["key"].to_pylist(), totals["total"].to_pylist(), strict=True)), lines.expected)
    if (kept, left_out) != {"letters": (lines.bad, 0), "skip": (0, lines.bad), "fail": (0, 0)}[policy]:
        raise WrongAnswerError(f"bad tuples, {policy}: {kept} letters and {left_out} skipped of {lines.bad}")
    return timed.seconds
