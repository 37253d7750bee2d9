"""A driver program whose Spark loses its shuffle data in the middle of a stage.

The tuples are shuffled again under other keys, because the function that makes the keys makes others at each call.

The user's session has Spark's checksums of shuffled tuples off. Every tuple must be handed over once all the same.

Usage: python -m tests.cluster.shuffled_anew FOLDER. Prints the numbers that were handed over, and by which attempt.
"""

import json
import os
import random
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.cluster.drive import session
from trident import TridentTopology
from trident.spouts import FixedBatchSpout

TUPLES = 2000
CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"


def anywhere(n: int) -> int:
    return random.randrange(1000)


class Members:
    """Returns every tuple of a partition.

    The first partition that is complete deletes the shuffle data; partitions that were not fetched by then must be
    shuffled again.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def init(self, batchId: object, collector: Any) -> list[int]:
        return []

    def aggregate(self, val: list[int], tuple: Any, collector: Any) -> None:
        val.append(tuple.n)

    def complete(self, val: list[int], collector: Any) -> None:
        for n in val:
            collector.emit([n])
        try:
            os.close(os.open(Path(self.folder) / "deleted", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
        for path in (Path(self.folder) / "local").rglob("shuffle_*"):
            path.unlink(missing_ok=True)


def main(folder: Path) -> None:
    handed: dict[int, list[int]] = {}

    def keep(table: pa.Table, txid: int, attempt: int) -> None:
        handed[attempt] = sorted(table.column("member").to_pylist())

    topology = TridentTopology()
    numbers = topology.newStream("numbers", FixedBatchSpout("n long", [[(n,) for n in range(TUPLES)]]))
    keyed = numbers.parallelismHint(2).each("n", anywhere, "key long")
    # Two partitions run at a time, so that most are fetched after the loss.
    members = keyed.partitionBy("key").partitionAggregate("n", Members(folder), "member long").parallelismHint(8)
    members.foreachArrow(keep, name="out")
    off = {f"{CHECKSUM}.enabled": "false", f"{CHECKSUM}.enableFullRetryOnMismatch": "false"}
    spark = session({"spark.local.dir": str(folder / "local"), **off}, master="local[2]")
    with topology.start(spark, name="anew", checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=240)
    ((attempt, numbers_handed),) = handed.items()
    print(json.dumps({"attempt": attempt, "handed": numbers_handed, "deleted": (folder / "deleted").exists()}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
