"""A program: a topology on Spark Connect that is idle for longer than its server keeps an unused session."""

import os
import sys
import time
from pathlib import Path

TIMEOUT = 30

if __name__ == "__main__":
    os.environ["SPARK_API_MODE"] = "connect"
    confs = {"defaultSessionTimeout": f"{TIMEOUT}s", "maintenanceInterval": "1s"}
    given = [f"--conf spark.connect.session.manager.{name}={value}" for name, value in confs.items()]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join([*given, "pyspark-shell"])

    from tests.support.spark import small_spark
    from trident import Count, TridentTopology
    from trident.spouts import FeederBatchSpout
    from trident.state import MemoryMapState

    folder = Path(sys.argv[1])
    spark = small_spark(folder)
    feeder, topology = FeederBatchSpout("n long"), TridentTopology()
    stream = topology.newStream("numbers", feeder).each("n", lambda n: n % 7, "group long")
    stream.groupBy("group").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    with topology.start(spark, name="idle", checkpointLocation=str(folder / "checkpoint"), driverRows=0) as running:
        for idle in (0, 2 * TIMEOUT):
            time.sleep(idle)
            feeder.feed([(n,) for n in range(70)])
            running.processAllAvailable(timeout=120)
            print(sorted(running.state("counts").items()), flush=True)
    print(spark.range(3).count(), flush=True)
