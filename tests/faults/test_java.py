"""Spark's Java process dies under a driver that lives on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from trident import Count, TridentTopology
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local

ROOT = Path(__file__).parents[2]
BATCHES = 300


def topology() -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a"]] * BATCHES)).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


DRIVER = """
import faulthandler, os, signal, sys, time
from pathlib import Path
from tests.faults.test_java import topology
from tests.support.processes import descendants
from tests.support.spark import small_spark
from trident.base.errors import TridentError

spark = small_spark(Path(sys.argv[1]))
options = {"name": "bereft", "checkpointLocation": sys.argv[1], "maxAttempts": 2}
try:
    with topology().start(spark, **options) as running:
        while next(iter(running.status["groups"].values()))["committed"] < 3:
            time.sleep(0.01)
        for pid, command in descendants(os.getpid()).items():
            if "org.apache.spark.deploy.SparkSubmit" in command:
                os.kill(pid, signal.SIGKILL)
        faulthandler.dump_traceback_later(50)
        running.processAllAvailable(timeout=60)
except (TridentError, TimeoutError) as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.spark
def test_a_driver_whose_spark_is_killed_ends_with_the_reason_and_the_next_one_goes_on(tmp_path: Path) -> None:
    driver = [sys.executable, "-c", DRIVER, str(tmp_path)]
    environment = {**os.environ, "SPARK_API_MODE": "classic"}
    ended = subprocess.run(driver, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120)
    kind, _, message = ended.stdout.strip().rpartition("\n")[2].partition(": ")
    assert kind == "BatchFailedError", ended.stdout + ended.stderr[-6000:]
    assert "the Java process of Spark ended while the topology was running: it ran out of" in message
    with start_local(topology(), name="bereft", checkpointLocation=tmp_path) as running:
        (group,) = running.status["groups"].values()
        assert 3 <= group["committed"] < BATCHES
        running.processAllAvailable(timeout=30)
        assert dict(running.state("counts").items()) == {"a": BATCHES}
