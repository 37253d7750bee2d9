"""Lives of drivers over one checkpoint, each a process that may be killed: ``python -m tests.run.driver_lives``.

Takes orders as JSON lines, {"spout", "folder", "crash", options...}, and forks a driver for each. It answers with
{"signal", "error", "attempts", "seen", "words"}: how the driver ended, the attempts at batch 1 that its progress tells
and those that the user's spout saw, and what was counted.
"""

import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd  # noqa: F401  # Arrow imports it for a first array; here once, and not in each driver

from trident import Count, TridentTopology
from trident.base import crash_points
from trident.base.attempt import TransactionAttempt
from trident.spouts import (
    BatchSpout,
    FeederBatchSpout,
    FileSpout,
    FixedBatchSpout,
    IterableSpout,
    OpaquePartitionedSpout,
    PartitionedSpout,
    PollingSpout,
    TridentSpout,
)
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROWS = ["a", "b", "a"]


def see(folder: Path, attempt: TransactionAttempt) -> None:
    """Note in which attempt the user's code was asked for rows."""
    with (folder / "seen").open("a") as file:
        print(attempt.attempt, file=file)


class Opaque(OpaquePartitionedSpout):
    outputFields = "word string"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, lastMetadata: Any) -> Any:
        if lastMetadata:
            return [], lastMetadata
        see(self.folder, attempt)
        return ROWS, len(ROWS)


class Transactional(PartitionedSpout):
    outputFields = "word string"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def getPartitions(self) -> list[str]:
        return ["p"]

    def emitPartitionBatchNew(self, attempt: TransactionAttempt, partition: str, lastMetadata: Any) -> Any:
        if lastMetadata:
            return [], lastMetadata
        see(self.folder, attempt)
        return ROWS, len(ROWS)

    def emitPartitionBatch(self, attempt: TransactionAttempt, partition: str, metadata: Any) -> Any:
        return ROWS


class Coordinated(TridentSpout):
    outputFields = "word string"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def getCoordinator(self) -> Any:
        return self

    def getEmitter(self) -> Any:
        return self

    def isReady(self, txid: int) -> bool:
        return txid == 1

    def initializeTransaction(self, txid: int, prevMetadata: Any, currMetadata: Any) -> Any:
        return txid

    def emitBatch(self, attempt: TransactionAttempt, metadata: Any) -> Any:
        see(self.folder, attempt)
        return ROWS

    def success(self, of: Any) -> None: ...

    def close(self) -> None: ...


class Simple(BatchSpout):
    outputFields = "word string"

    def emitBatch(self, batchId: int) -> Any:
        return ROWS if batchId == 1 else None


def fed() -> FeederBatchSpout:
    feeder = FeederBatchSpout("word string")
    feeder.feed(ROWS)
    return feeder


def files(folder: Path) -> Any:
    if not (folder / "in").exists():
        (folder / "in").mkdir()
        (folder / "in" / "words.txt").write_text("".join(f"{word}\n" for word in ROWS))
    return FileSpout(folder / "in")


SPOUTS: dict[str, Callable[[Path], Any]] = {
    "fixed": lambda folder: FixedBatchSpout("word string", [ROWS]),
    "feeder": lambda folder: fed(),
    "iterable": lambda folder: IterableSpout("word string", ROWS),
    "polling": lambda folder: PollingSpout("word string", {"p": ROWS}),
    "opaque": Opaque,
    "transactional": Transactional,
    "coordinated": Coordinated,
    "batch": lambda folder: Simple(),
    "file": files,
    "fixed twice": lambda folder: FixedBatchSpout("word string", [ROWS, ["c"]]),
}
SEEN_BY_USERS = ("opaque", "transactional", "coordinated")
"""The contracts that tell user code its attempt."""


def live(order: dict[str, Any]) -> dict[str, Any]:
    """One driver's life."""
    folder = Path(order["folder"])
    topology = TridentTopology()
    words = topology.newStream("words", SPOUTS[order["spout"]](folder))
    field = words.schema.names[0]
    words.groupBy(field).persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    options = {"maxSpoutPending": 1} | order.get("options", {})
    told: dict[str, Any] = {"error": None}
    running = start_local(topology, name="lives", checkpointLocation=folder / "checkpoint", **options)
    try:
        running.processAllAvailable(timeout=60)
        told["words"] = dict(running.state("counts").items())
    except Exception as error:
        told["error"] = f"{type(error).__name__}: {error}"
    told["attempts"] = [each["attempt"] for each in running.recentProgress if each["txid"] == 1]
    running.stop()
    return told


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        if not (child := os.fork()):
            os.close(read)
            warnings.simplefilter("ignore", RuntimeWarning)
            try:
                crash_points.arm(order.get("crash", ""))
                told = live(order)
            except Exception as error:
                told = {"error": f"{type(error).__name__}: {error}"}
            os.write(write, json.dumps(told).encode())
            os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            answer = json.loads(pipe.read() or "{}")
        _, status = os.waitpid(child, 0)
        seen = Path(order["folder"]) / "seen"
        answer["seen"] = [int(number) for number in seen.read_text().split()] if seen.exists() else []
        print(json.dumps(answer | {"signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None}), flush=True)


if __name__ == "__main__":
    main()
