"""How Spark divides its work may change between restarts, also in the middle of a commit: the counts do not notice."""

import itertools
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState

BATCHES = [[f"w{n % (7 + at)}" for n in range(500)] for at in range(6)]

CHILD = """
import sys, warnings
from pathlib import Path
from tests.run.test_repartitioning_spark import counting
from tests.support.spark import small_spark
folder, master, partitions, upto = Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])
spark = small_spark(folder / "spark", master)
spark.conf.set("spark.sql.shuffle.partitions", partitions)
with counting(upto).start(spark, name="wc", checkpointLocation=folder / "c") as running:
    running.processAllAvailable(timeout=60)
"""


def counting(upto: int) -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", BATCHES[:upto]))
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def counted(spark: SparkSession, folder: Path, partitions: int, upto: int) -> dict[str, int]:
    """Start with so many shuffle partitions, process the batches up to this one, and return the counts."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", str(partitions))
    with counting(upto).start(session, name="wc", checkpointLocation=folder / "c") as running:
        running.processAllAvailable(timeout=60)
        return dict(running.state("counts").items())


@pytest.mark.spark
def test_other_shuffle_partitions_go_on_from_the_same_state(spark: SparkSession, tmp_path: Path) -> None:
    for upto, partitions in enumerate((7, 1, 5), 1):
        assert counted(spark, tmp_path, partitions, upto) == Counter(itertools.chain(*BATCHES[:upto]))


@pytest.mark.spark
@pytest.mark.soak
def test_other_shuffle_partitions_and_another_number_of_cores_go_on_from_the_same_state(
    spark: SparkSession, tmp_path: Path
) -> None:
    assert counted(spark, tmp_path, 7, 1) == Counter(BATCHES[0])
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path), "local[3]", "5", "5"],
        env={**os.environ, "TRIDENT_CRASH_AT": "commit.state.after:2", "SPARK_API_MODE": "classic"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    assert counted(spark, tmp_path, 1, 6) == Counter(itertools.chain(*BATCHES))
