"""A driver program whose Spark loses a Python worker and two executors, each in the middle of a batch.

Its topology has windows of three kinds, dead letters, skipped tuples, and an aggregator behind a shuffle.

Who dies is whoever has a certain tuple in hand: the worker itself, the executor that reads, and the executor that
aggregates, which takes what it shuffled with it. Every tuple is in exactly one place in the end: a checksum by word
over each kind of window, the tuples that died, and how many were skipped.

Usage: python -m tests.cluster.losses FOLDER. Prints what it found as JSON in its last line.
"""

import json
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
from pyspark import TaskContext

from tests.cluster.drive import EXECUTOR, session
from tests.faults import windows
from trident import Count, DeadLetter, SessionWindow, Sum, TridentTopology, TumblingEventTimeWindow
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

FOLDER = "TRIDENT_TEST_LOSSES"
BATCHES = [[(f"w{row % 4}", batch * 40 + row) for row in range(40)] for batch in range(5)]
WORKER, READER, REDUCER = 40 + 25, 2 * 40 + 25, 3 * 40 + 25
"""The tuples at which each of them dies, once."""


def once(name: str) -> bool:
    """Whether this is the first time, over all processes."""
    try:
        os.close(os.open(Path(os.environ[FOLDER]) / f"lost-{name}", os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


def executor() -> int:
    """Return the process id of this worker's executor."""
    pid = os.getppid()
    while EXECUTOR not in (Path("/proc") / str(pid) / "cmdline").read_bytes():
        (parent,) = (line for line in (Path("/proc") / str(pid) / "status").read_text().splitlines() if "PPid" in line)
        pid = int(parent.split()[1])
    return pid


def dangerous(seq: int) -> int:
    """Every seventh tuple dies; two of the others take a process with them."""
    if TaskContext.get() is not None:
        if seq == WORKER and once("worker"):
            os.kill(os.getpid(), signal.SIGKILL)
        if seq == READER and once("reader"):
            os.kill(executor(), signal.SIGKILL)
    if seq % 7 == 0:
        raise ValueError(f"{seq} is one")
    return seq


def eleventh(seq: int) -> int:
    if seq % 11 == 0:
        raise ValueError("left out")
    return seq


class Sums:
    """An aggregator behind a shuffle, which takes its executor with it."""

    def init(self, batchId: object, collector: Any) -> list[int]:
        return [0]

    def aggregate(self, val: list[int], tuple: Any, collector: Any) -> None:
        if tuple.seq == REDUCER and TaskContext.get() is not None and once("reducer"):
            os.kill(executor(), signal.SIGKILL)
        val[0] += tuple.seq

    def complete(self, val: list[int], collector: Any) -> None:
        collector.emit(val)


def topology(folder: Path) -> TridentTopology:
    made = TridentTopology()
    read = made.newStream("numbers", FixedBatchSpout("word string, seq long", BATCHES)).parallelismHint(2)
    good = read.each("seq", dangerous, "same long", onError=DeadLetter(attempts=0))
    words = good.each("seq", eleventh, "other long", onError="skip").each("seq", windows.timed, "at timestamp")
    by_word = words.groupBy("word")

    def state() -> Any:
        return MemoryMapState.opaque()

    def left(stream: Any, name: str, field: str = "sum") -> None:
        stream.groupBy("word").persistentAggregate(state(), field, Sum(), "total", name=name)

    left(by_word.tumblingWindow(3, state(), "seq", Sum(), "sum", name="threes"), "threes.left")
    tens = by_word.window(TumblingEventTimeWindow(10, "at"), state(), "seq", Sum(), "sum", name="tens")
    left(tens, "tens.left")
    left(tens.late(), "tens.late", "seq")
    visits = SessionWindow(15, "at")
    left(by_word.window(visits, state(), "seq", windows.Checked(), "sum long", name="visits"), "visits.left")
    left(words.shuffle().groupBy("word").aggregate(["seq"], Sums(), "sum long"), "batches")
    words.groupBy("word").persistentAggregate(state(), Count(), "count", name="counts")
    words.writeParquet(folder / "out", name="out")
    made.deadLetterState(state())
    return made


def found(running: Any, folder: Path) -> dict[str, Any]:
    sums = windows.found(running) | {"batches": dict(running.state("batches").items())}
    died = [json.loads(letter["tuple"])["seq"] for _, letter in running.state("deadLetters").items()]
    skipped: Counter[str] = Counter()
    for event in running.recentProgress:
        skipped.update(event.get("skipped", {}))
    return {
        "steps": counted(running.recentProgress),
        "sums": sums,
        "counts": dict(running.state("counts").items()),
        "died": sorted(died),
        "skipped": sorted(skipped.values()),
        "lost": sorted(path.name for path in folder.glob("lost-*")),
    }


def counted(events: list[dict[str, Any]]) -> dict[str, list[int]]:
    """Return how many tuples entered and left each function that runs on workers, in all committed batches."""
    totals: dict[str, list[int]] = {}
    for step in (step for event in events for step in event.get("steps", [])):
        _, _, function = step["name"].partition(":")
        if function in ("each(dangerous)", "each(eleventh)", "each(timed)"):
            entered, left = totals.setdefault(function, [0, 0])
            totals[function] = [entered + step["in"], left + step["out"]]
    return totals


def expected() -> dict[str, Any]:
    """Return what `found` must return, and the sums of the published rows."""
    rows = [row for batch in BATCHES for row in batch]
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for word, seq in rows:
        if seq % 7 and seq % 11:
            sums[word] += seq
            counts[word] += 1
    alive = sum(seq % 7 > 0 for _, seq in rows)
    used = sum(counts.values())
    return {
        "steps": {"each(dangerous)": [len(rows), alive], "each(eleventh)": [alive, used], "each(timed)": [used, used]},
        "sums": dict.fromkeys(("threes", "tens", "visits", "batches"), dict(sums)),
        "counts": dict(counts),
        "died": [seq for _, seq in rows if seq % 7 == 0],
        "skipped": [sum(seq % 7 > 0 and seq % 11 == 0 for _, seq in rows)],
        "lost": ["lost-reader", "lost-reducer", "lost-worker"],
        "published": sum(sums.values()),
    }


def main(folder: Path) -> None:
    from trident import publishedFiles

    os.environ[FOLDER] = str(folder)
    quick = {"spark.shuffle.io.retryWait": "200ms"}  # what a dead executor shuffled does not come back by waiting
    spark = session({f"spark.executorEnv.{FOLDER}": str(folder), **quick})
    with topology(folder).start(spark, name="losses", checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=240)
        results = found(running, folder)
    tables = [pa.parquet.read_table(file) for file in publishedFiles(folder / "out")]
    results["published"] = sum(pa.concat_tables(tables)["seq"].to_pylist())
    print(json.dumps(results))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
