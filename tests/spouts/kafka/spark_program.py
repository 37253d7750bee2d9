"""A program on a Spark that has the Kafka connector: reads topics by Spark and by the driver, and counts them."""

import json
import sys
import time
from pathlib import Path
from typing import Any

from tests.spouts.kafka.reads import emitted, planned
from tests.support.spark import CONNECT, small_spark
from trident import Count, TridentTopology
from trident.spouts import KafkaSpout
from trident.state import MemoryMapState


def main(servers: str, secured: str, options: str, topic: str, folder: str) -> None:
    spark = small_spark(Path(folder) / "spark")
    spout = KafkaSpout(secured, topic, maxOffsetsPerBatch=8, options=json.loads(options))
    executor = spout.open()
    if not CONNECT:
        spark.sparkContext.setLogLevel("WARN")  # as a user's session has it
    told: dict[str, Any] = {"equal": [], "partitions": []}
    position = None
    while (plan := planned(executor, position)) is not None:
        emission = emitted(executor, plan)
        frame = emission.dataframe(spark, Path(folder))
        by_spark, by_driver = frame.toArrow(), emission.arrow()
        emission.check_scanned()
        rows = sorted(map(str, by_spark.to_pylist())), sorted(map(str, by_driver.to_pylist()))
        told["equal"].append(rows[0] == rows[1] and by_spark.schema.equals(by_driver.schema))
        told["partitions"].append(len(by_driver))
        position = plan
    many = KafkaSpout(servers, f"{topic}-many").open()
    frame = emitted(many, planned(many)).dataframe(spark, Path(folder))
    told["tasks"] = frame.mapInArrow(lambda batches: batches, frame.schema).selectExpr("spark_partition_id() p")
    told["tasks"] = told["tasks"].distinct().count()
    dated = KafkaSpout(servers, f"{topic}-dated").open()
    frame = emitted(dated, planned(dated)).dataframe(spark, Path(folder))
    told["dated"] = [frame.selectExpr("value").count()]
    try:
        frame.selectExpr("max(timestamp)").collect()
    except Exception as error:
        told["dated"].append(str(error))
    told["runs"], told["timed"] = [], []
    for _ in range(2):
        topology = TridentTopology()
        values = topology.newStream("values", spout).each("value", bytes.decode, "v string")
        values.groupBy("v").persistentAggregate(MemoryMapState.transactional(), Count(), "count", name="counts")
        with topology.start(spark, name="values", checkpointLocation=Path(folder) / "checkpoint") as running:
            running.processAllAvailable(timeout=120)
            began = time.monotonic()
            print(f"ready {running.readSoFar['values']}", flush=True)
            sys.stdin.readline()
            running.processAllAvailable(timeout=120)
            told["runs"].append(dict(running.state("counts").items()))
            events = [event for event in running.recentProgress if event["event"] == "committed"]
            told["timed"].append(all("values" in event["latencyMs"] for event in events))
            print(f"{time.monotonic() - began:.2f} s", file=sys.stderr)
    print(json.dumps(told), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
