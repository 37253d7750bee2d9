"""The jars of a Kafka broker and of Spark's Kafka connector, fetched once from Maven Central."""

import re
from collections.abc import Sequence
from pathlib import Path

import pyspark

from trident.demo.artifacts import first_fetched

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
CONNECTORS = tuple(
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}" for version in (pyspark.__version__, "4.2.0")
)
"""Spark's connector for the version of pyspark, otherwise for the previous version: some releases reach Maven Central
weeks after PyPI."""


class OutOfReachError(RuntimeError):
    """The jars are not in the cache and cannot be fetched. The message says why."""


def broker_jars() -> Path:
    """Return the folder with the jars of the broker. Raises OutOfReachError."""
    return _first((BROKER,))


def connector_jars() -> list[Path]:
    """Return the jars that Spark lacks for its Kafka connector. Raises OutOfReachError."""
    folder = _first(CONNECTORS)
    in_spark = {_artifact(jar) for jar in _spark_jars().iterdir()}
    return sorted(jar for jar in folder.glob("*.jar") if _artifact(jar) not in in_spark)


def _spark_jars() -> Path:
    return Path(pyspark.__file__).parent / "jars"


def _artifact(jar: Path) -> str:
    """Return the name of a jar without its version."""
    return re.sub(r"-\d[^-]*(-.*)?\.jar$", "", jar.name)


def _first(artifacts: Sequence[str]) -> Path:
    """Return the folder of the first artifact that can be fetched."""
    folder, reason = first_fetched(artifacts)
    if reason:
        raise OutOfReachError(reason)
    return folder
