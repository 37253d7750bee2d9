"""A program on a Spark that has the Kafka connector: a restored Kafka lacks messages that workers have read ahead."""

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.spouts.kafka.reads import emitted, planned
from tests.support.kafka import KafkaBroker
from tests.support.spark import small_spark
from trident.errors import DataLossError
from trident.spouts import KafkaSpout

KEPT = {"by-spark": 100, "by-driver": 100, "planned-before": 100, "some-read": 90}
"""For each topic, the number of messages that the restored broker still has."""

SENT = 150


class Stream:
    """A stream of batches of 100 messages of a topic."""

    def __init__(self, servers: str, topic: str) -> None:
        policy: Any = "earliest" if topic == "some-read" else "fail"
        self._executor = KafkaSpout(servers, topic, maxOffsetsPerBatch=100, onDataLoss=policy).open()
        self._position: Any = None

    def plan(self) -> Any:
        """Return the next batch."""
        return planned(self._executor, self._position)

    def read(self, plan: Any, spark: SparkSession | None, folder: Path) -> Counter[str]:
        """Return the values of a batch that Spark reads; without Spark, the driver."""
        emission: Any = emitted(self._executor, plan)
        table = emission.arrow() if spark is None else emission.dataframe(spark, folder).toArrow()
        emission.check_scanned()
        self._position = json.loads(json.dumps(emission.after))
        return Counter(value.decode() for value in table.column("value").to_pylist())


def batches(spark: SparkSession, folder: Path, same_epoch: bool) -> dict[str, Any]:
    """Return the values in two batches of each stream, and the error of the third plan of "planned-before".

    The broker is restored after the first batches. `same_epoch` says whether its leaders then have the epochs again
    that they had.
    """
    read: dict[str, Any] = {topic: [] for topic in KEPT}
    with KafkaBroker(folder / "broker") as kafka:
        for topic, kept in KEPT.items():
            kafka.send(kafka.create(topic), ["kept"] * kept)
        kafka.back_up(folder / "copy")
        if same_epoch:  # started from the copy twice
            kafka.restore(folder / "copy")
        for topic, kept in KEPT.items():
            kafka.send(topic, ["lost"] * (SENT - kept))
        streams = {topic: Stream(kafka.servers, topic) for topic in KEPT}
        readers = {topic: None if topic == "by-driver" else spark for topic in KEPT}
        for topic, stream in streams.items():
            read[topic].append(stream.read(stream.plan(), readers[topic], folder))
        planned_before = streams["planned-before"].plan()
        kafka.restore(folder / "copy")
        for topic, kept in KEPT.items():
            kafka.send(topic, ["new"] * (SENT - kept))
        for topic, stream in streams.items():
            plan = planned_before if topic == "planned-before" else stream.plan()
            read[topic].append(stream.read(plan, readers[topic], folder))
        try:
            streams["planned-before"].plan()
        except DataLossError as error:
            read["planned-before"].append(str(error))
    return read


def main(folder: Path, leaders: str) -> None:
    spark = small_spark(folder / "spark")
    print(json.dumps(batches(spark, folder, leaders == "same-epoch")), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
