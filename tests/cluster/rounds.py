"""Random faults in Spark clusters with executors in processes of their own.

The functions give other values at each call. Every tuple must count once: in states and output, or as a dead letter.

A round is a batch of two streams. While it runs, executors or Python workers are killed, shuffle files deleted, and
blocks of kept tuples dropped. Then everything is compared with what was handed over of the same batches.

Usage: python -m tests.cluster.rounds N [--seed S] [--kind local-cluster|standalone]. Prints a summary in its last line;
ends with 1 where anything differs.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from tests.cluster.drive import ONE_CORE_EACH, UNDER_FIRE, executors, session
from tests.faults import windows
from tests.support.standalone import StandaloneCluster
from trident import Count, DeadLetter, SessionWindow, Sum, TridentTopology, TumblingEventTimeWindow
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState

KINDS = ("local-cluster", "standalone")
ROWS = 80
SECONDS = 2.5
"""Within so much of a batch's beginning faults come."""

# --- the topology -------------------------------------------------------------------------------------------------


def risky(seq: int) -> int:
    """Fails now and then, and else gives another number each time."""
    time.sleep(0.01)
    if random.random() < 0.2:
        raise ValueError("this time")
    return random.randrange(1_000_000)


def anywhere(seq: int) -> int:
    """Another group each time."""
    time.sleep(0.01)
    return random.randrange(10)


class Members:
    """Gives back every tuple of a group that was brought together."""

    def init(self, batchId: object, collector: Any) -> list[int]:
        return []

    def aggregate(self, val: list[int], tuple: Any, collector: Any) -> None:
        val.append(tuple.seq)

    def complete(self, val: list[int], collector: Any) -> None:
        for seq in val:
            collector.emit([seq])


def topology(
    numbers: FeederBatchSpout, others: FeederBatchSpout, keep: Callable[[pa.Table, int, int], None]
) -> TridentTopology:
    made = TridentTopology()

    def state() -> Any:
        return MemoryMapState.opaque()

    def left(stream: Any, name: str, field: str = "sum") -> None:
        stream.groupBy("word").persistentAggregate(state(), field, Sum(), "total", name=name)

    read = made.newStream("numbers", numbers).parallelismHint(2)
    good = read.each("seq", risky, "value long", onError=DeadLetter(attempts=0)).each(
        "seq", windows.timed, "at timestamp"
    )
    good.foreachArrow(keep, name="out")
    good.groupBy("seq").persistentAggregate(state(), Count(), "count", name="seen")
    good.groupBy("word").persistentAggregate(state(), "value", Sum(), "total", name="totals")
    left(good.shuffle().groupBy("word").aggregate("seq", Members(), "again long"), "again", "again")
    by_word = good.groupBy("word")
    left(by_word.tumblingWindow(3, state(), "seq", Sum(), "sum", name="threes"), "threes.left")
    tens = by_word.window(TumblingEventTimeWindow(10, "at"), state(), "seq", Sum(), "sum", name="tens")
    left(tens, "tens.left")
    left(tens.late(), "tens.late", "seq")
    visits = by_word.window(SessionWindow(15, "at"), state(), "seq", windows.Checked(), "sum long", name="visits")
    left(visits, "visits.left")
    made.deadLetterState(state())

    elsewhere = made.newStream("others", others).parallelismHint(2).each("seq", anywhere, "key long")
    members = elsewhere.groupBy("key").aggregate("seq", Members(), "member long")
    members.groupBy("member").persistentAggregate(state(), Count(), "count", name="members")
    return made


def differences(running: RunningTopology, handed: dict[int, pa.Table], fed: int) -> list[str]:
    """Return what is wrong after the batches with the numbers below `fed`."""
    out = [row for table in handed.values() for row in table.to_pylist()]
    values: Counter[str] = Counter()
    seqs: Counter[str] = Counter()
    for row in out:
        values[row["word"]] += row["value"]
        seqs[row["word"]] += row["seq"]
    died = [json.loads(letter["tuple"])["seq"] for _, letter in running.state("deadLetters").items()]
    everything = dict.fromkeys(range(fed), 1)
    places = {
        "output and letters": (Counter([*(row["seq"] for row in out), *died]), everything),
        "seen": (dict(running.state("seen").items()), {row["seq"]: 1 for row in out}),
        "totals": (dict(running.state("totals").items()), dict(values)),
        "again": (dict(running.state("again").items()), dict(seqs)),
        "members": (dict(running.state("members").items()), everything),
        **{f"window {name}": (actual, dict(seqs)) for name, actual in windows.found(running).items()},
    }
    return [f"{name}: {_differing(actual, right)}" for name, (actual, right) in places.items() if actual != right]


def _differing(actual: Any, right: Any) -> str:
    keys = [key for key in {**actual, **right} if actual.get(key) != right.get(key)]
    shown = ", ".join(f"{key}: {actual.get(key)} for {right.get(key)}" for key in sorted(keys)[:5])
    return f"{len(keys)} differ ({shown})"


# --- faults -------------------------------------------------------------------------------------------------------


def kill_executor(spark: SparkSession, local: Path) -> bool:
    """Kill an executor, with what it shuffled and kept."""
    return _kill(executors(spark.sparkContext.applicationId))


def kill_worker(spark: SparkSession, local: Path) -> bool:
    """Kill a Python process of an executor."""
    own = set(executors(spark.sparkContext.applicationId))
    daemons = {pid for pid, parent, line in _processes() if parent in own and b"pyspark.daemon" in line}
    return _kill([pid for pid, parent, _ in _processes() if parent in daemons] or [*daemons])


def delete_shuffles(spark: SparkSession, local: Path) -> bool:
    """Delete the shuffle files that are there."""
    gone = [path for path in local.rglob("shuffle_*") if path.suffix in (".data", ".index")]
    for path in gone:
        path.unlink(missing_ok=True)
    return bool(gone)


def drop_blocks(spark: SparkSession, local: Path) -> bool:
    """Drop the blocks of tuples that are kept for several readers."""
    kept = list(spark.sparkContext._jsc.getPersistentRDDs())  # type: ignore[attr-defined]
    for number in kept:
        spark.sparkContext._jsc.sc().unpersistRDD(number, False)  # type: ignore[attr-defined]
    return bool(kept)


FAULTS = (kill_executor, kill_worker, delete_shuffles, drop_blocks)


def _kill(pids: list[int]) -> bool:
    for pid in random.sample(pids, min(1, len(pids))):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
    return bool(pids)


def _processes() -> Iterator[tuple[int, int, bytes]]:
    """Yield the number, the parent and the command line of every process."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                status, line = (entry / "status").read_text(), (entry / "cmdline").read_bytes()
            except OSError:
                continue
            yield int(entry.name), int(status.partition("PPid:")[2].split()[0]), line


class Trouble(threading.Thread):
    """One to three faults at random moments of a round."""

    def __init__(self, dice: random.Random, spark: SparkSession, local: Path) -> None:
        super().__init__(daemon=True)
        self._plan = sorted(
            ((dice.uniform(0, SECONDS), dice.choice(FAULTS)) for _ in range(dice.choice((1, 1, 2, 3)))),
            key=lambda pair: pair[0],
        )
        self._spark, self._local = spark, local
        self.over = threading.Event()
        self.done: Counter[str] = Counter()

    def run(self) -> None:
        began = time.monotonic()
        for moment, fault in self._plan:
            if self.over.wait(max(0.0, moment - (time.monotonic() - began))):
                return
            with suppress(Py4JError, OSError):  # what was to go is gone
                self.done[fault.__name__] += fault(self._spark, self._local)


# --- rounds -------------------------------------------------------------------------------------------------------


def rounds(kind: str, count: int, seed: int, folder: Path) -> dict[str, Any]:
    """So many rounds on a cluster of this kind."""
    os.environ["SPARK_LOCAL_DIRS"] = str(folder / "local")
    if kind == "local-cluster":
        return _rounds(session(UNDER_FIRE), count, random.Random(seed), folder)
    with StandaloneCluster(folder) as cluster:
        return _rounds(session(UNDER_FIRE | ONE_CORE_EACH, cluster.url), count, random.Random(seed), folder)


def _rounds(spark: SparkSession, count: int, dice: random.Random, folder: Path) -> dict[str, Any]:
    numbers, others = FeederBatchSpout("word string, seq long"), FeederBatchSpout("seq long")
    handed: dict[int, pa.Table] = {}
    wrong: list[str] = []
    faults: Counter[str] = Counter()
    again = 0

    def keep(table: pa.Table, txid: int, attempt: int) -> None:
        if not handed.setdefault(txid, table).equals(table):
            wrong.append(f"batch {txid} was handed over with other tuples")

    options: dict[str, Any] = {"name": "rounds", "checkpointLocation": folder / "checkpoint", "maxAttempts": 30}
    with topology(numbers, others, keep).start(spark, **options) as running:
        for number in range(count):
            seqs = range(number * ROWS, (number + 1) * ROWS)
            began, trouble = time.monotonic(), Trouble(dice, spark, folder / "local")
            numbers.feed([(f"w{seq % 4}", seq) for seq in seqs])
            others.feed([(seq,) for seq in seqs])
            trouble.start()
            running.processAllAvailable(timeout=300)
            trouble.over.set()
            trouble.join()
            faults.update(trouble.done)
            found = differences(running, handed, (number + 1) * ROWS)
            wrong += [f"round {number}: {each}" for each in found]
            outcome = f"{time.monotonic() - began:.1f} s, {dict(trouble.done)}, {'; '.join(found) or 'exact'}"
            print(f"round {number}: {outcome}", file=sys.stderr, flush=True)
            if found:
                break
        again = sum("error" in event for event in running.recentProgress)
    spark.stop()
    return {"rounds": number + 1, "faults": dict(faults), "failed attempts": again, "wrong": wrong}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.rounds")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--kind", choices=KINDS, help="this kind of cluster alone, in this process")
    asked = parser.parse_args()
    began = time.monotonic()
    if asked.kind is not None:
        with tempfile.TemporaryDirectory(prefix="trident-rounds-", ignore_cleanup_errors=True) as folder:
            print(json.dumps(rounds(asked.kind, asked.rounds, asked.seed, Path(folder))))
        return 0
    failed, outcomes = False, []
    for kind, count in zip(KINDS, (asked.rounds - asked.rounds // 2, asked.rounds // 2), strict=True):
        if not count:
            continue
        command = [sys.executable, "-m", "tests.cluster.rounds", str(count), "--seed", str(asked.seed), "--kind", kind]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        lines = done.stdout.strip().splitlines()
        result = (
            json.loads(lines[-1]) if done.returncode == 0 and lines else {"wrong": [f"ended with {done.returncode}"]}
        )
        failed = failed or bool(result["wrong"])
        outcomes.append(f"{kind}: {json.dumps(result)}")
    verdict = "NOT EXACT" if failed else "exact"
    print(f"{verdict}, seed {asked.seed}, {time.monotonic() - began:.0f} s; " + "; ".join(outcomes))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
