"""A driver program on a Spark that evaluates a partition twice at the same time.

Shuffled input is lost, the stage runs again, and the tasks of its first run go on beside those of the second.

Eight states read what a function gives that is another value each time. All must have the same values.

Usage: python -m tests.cluster.twice FOLDER. Prints what each state holds, and how often the first partition was begun.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame

from tests.cluster.drive import session
from trident import Count, TridentTopology, expr
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

FOLDER = "TRIDENT_TEST_TWICE"
READERS = 8


def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Delay the first partition, and let the second one delete the shuffle data, so that the third one fails.

    The third one takes longest when it runs again; by then the first one has run twice.
    """
    folder, context = Path(os.environ[FOLDER]), TaskContext.get()
    assert context is not None
    if context.partitionId() == 0:
        (folder / f"began-{uuid.uuid4().hex}").touch()
        time.sleep(6)
    elif context.partitionId() == 1 and not (folder / "deleted").exists():
        (folder / "deleted").touch()
        time.sleep(1)
        for path in (folder / "local").rglob("shuffle_*"):
            path.unlink(missing_ok=True)
    for batch in batches:
        if context.partitionId() == 2:
            time.sleep(12)
        yield batch


def slowly(numbers: DataFrame) -> DataFrame:
    return numbers.mapInArrow(slow, "seq long")


def another(seq: int) -> str:
    return uuid.uuid4().hex


def topology() -> TridentTopology:
    made = TridentTopology()
    numbers = made.newStream("numbers", FixedBatchSpout("seq long", [[(n,) for n in range(30)]])).parallelismHint(3)
    tagged = numbers.transform(slowly).each("seq", another, "tag string").project("tag")
    for number in range(READERS):
        own = tagged.filter("tag", expr(f"length(tag) > {number}"))  # else Spark makes one reader of them
        own.groupBy("tag").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name=f"tags{number}")
    return made


def main(folder: Path) -> None:
    os.environ |= {FOLDER: str(folder), "SPARK_LOCAL_DIRS": str(folder / "local")}
    spark = session({f"spark.executorEnv.{FOLDER}": str(folder), "spark.locality.wait": "0s"})
    with topology().start(spark, name="twice", checkpointLocation=folder / "checkpoint") as running:
        running.processAllAvailable(timeout=240)
        tags = [sorted(tag for tag, _ in running.state(f"tags{number}").items()) for number in range(READERS)]
    print(json.dumps({"tags": tags, "began": len(list(folder.glob("began-*")))}))
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
