"""KafkaSpout on Spark: the connector reads what the driver would read. A session without it is told what to add."""

import json
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

from tests.spouts.kafka.reads import emitted, planned
from tests.support.kafka import KafkaBroker, connector_jars
from tests.support.spark import CONNECT
from trident.errors import SparkSetupError
from trident.spouts import KafkaSpout

pytestmark = pytest.mark.spark

ROOT = Path(__file__).parents[3]


@pytest.mark.connect
def test_a_session_without_the_connector_is_told_what_to_add(
    spark: SparkSession, kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    kafka.send(kafka.create(topic), "a")
    executor = KafkaSpout(kafka.servers, topic).open()
    emission = emitted(executor, planned(executor))
    package = re.escape(f"spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__} (")
    with pytest.raises(SparkSetupError, match=f"KafkaSpout: this Spark session has no Kafka connector.*{package}"):
        emission.dataframe(spark, tmp_path)
    executor.close()


@pytest.mark.connect
def test_spark_reads_what_the_driver_would_read_and_counts_it_once(
    kafka: KafkaBroker, topic: str, tmp_path: Path
) -> None:
    """Keys, headers, missing values; aborted transactions; a user, a password and TLS; restarts; many partitions."""
    kafka.create(topic, 3)
    kafka.send(topic, ["cow", "moon", "cow", ""], key=b"k", headers=[("h", b"1"), ("h", None)])
    for word, commit in (("cow", True), ("lost", False), ("moon", True), ("lost", False)):
        kafka.send_transaction(topic, [word, word], commit=commit, partition=1)
    kafka.create(f"{topic}-many", 20)
    for partition in range(20):
        kafka.send(f"{topic}-many", ["x"], partition)
    kafka.create(f"{topic}-dated", message_timestamp_after_max_ms=2**63 - 1)
    kafka.send(f"{topic}-dated", ["a"], timestamp=253_402_300_800_000)
    told = run(kafka, topic, tmp_path)
    log = (tmp_path / "program.log").read_text()
    assert CONNECT or ("WARN" in log and "kafka.group.id" not in log), "eight lines for each batch"
    assert told["equal"] == [True] * len(told["equal"]) and len(told["equal"]) == 2
    assert sum(told["partitions"]) == 8, "the messages that were committed"
    assert told["tasks"] == 8, "four for each core, and not one for each partition of the topic"
    assert told["timed"] == [True, True]
    unused, error = told["dated"]
    assert unused == 1
    assert f"the message at {topic}-dated-0, offset 0 has the timestamp 253402300800000: expected milli" in error
    first = Counter({"cow": 4, "moon": 3, "": 1})
    assert Counter(told["runs"][0]) == first + Counter(later=2)
    assert Counter(told["runs"][1]) == first + Counter(later=4)


def run(kafka: KafkaBroker, topic: str, folder: Path) -> Any:
    """Run the program on a Spark of its own; each time that it has read all, send more. Return what it tells."""
    jars = ",".join(map(str, connector_jars()))
    env = os.environ | {"PYSPARK_SUBMIT_ARGS": f"--jars {jars} pyspark-shell"}
    command = [sys.executable, "-m", "tests.spouts.kafka.spark_program"]
    with (folder / "program.log").open("w+") as log:
        address, options = kafka.encrypted
        child = subprocess.Popen(
            [*command, kafka.servers, address, json.dumps(options), topic, str(folder)],
            cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True,
        )  # fmt: skip
        assert child.stdout is not None and child.stdin is not None
        try:
            for line in child.stdout:
                if line.startswith("{"):
                    return json.loads(line)
                assert line.startswith("ready ReadSoFar("), line
                kafka.send(topic, ["later", "later"], 2)
                child.stdin.write("go on\n")
                child.stdin.flush()
            log.seek(0)
            raise AssertionError(f"the program failed:\n{log.read()[-4000:]}")
        finally:
            child.kill()
            child.wait(30)
