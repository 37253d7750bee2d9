"""The jars of a Kafka broker and of Spark's Kafka connector, fetched from Maven Central by the Ivy that pyspark brings.

They are fetched once, into a folder of the user's cache.
"""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

import pyspark

BROKER = "org.apache.kafka:kafka_2.13:4.1.0"
CONNECTORS = tuple(
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{version}" for version in (pyspark.__version__, "4.2.0")
)
"""Spark's connector of pyspark's version, else the one before: some releases reach Maven Central weeks after PyPI."""

_FETCH_SECONDS = 300


class OutOfReachError(RuntimeError):
    """The jars are not in the cache and cannot be fetched. The message says why."""


def cache_folder() -> Path:
    """Return the user's cache folder for what is fetched."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trident-pyspark"


def java() -> str:
    """Return the Java that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin" / "java") if home else "java"


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
    reasons = []
    for artifact in artifacts:
        folder, reason = _resolve(artifact)
        if not reason:
            return folder
        reasons.append(f"{artifact} cannot be fetched: {reason}")
    raise OutOfReachError("; ".join(reasons))


@cache
def _resolve(artifact: str) -> tuple[Path, str]:
    """Return the folder with an artifact's jars, and why they are not there; "" if they are."""
    group, name, version = artifact.split(":")
    folder = cache_folder() / f"{name}-{version}"
    if folder.is_dir():
        return folder, ""
    ivy = next(_spark_jars().glob("ivy-*.jar"), None)
    if ivy is None or shutil.which(java()) is None:
        return folder, "there is no Java, or no Ivy in pyspark/jars"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        jars = Path(scratch) / "jars"
        command = [java(), "-jar", str(ivy), "-dependency", group, name, version, "-confs", "default"]
        command += ["-cache", f"{scratch}/ivy", "-retrieve", f"{jars}/[artifact]-[revision](-[classifier]).[ext]"]
        try:
            ended = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS)
        except subprocess.TimeoutExpired:
            return folder, f"Ivy did not end within {_FETCH_SECONDS} s"
        if ended.returncode or not list(jars.glob(f"{name}-*.jar")):
            lines = [line.strip() for line in ended.stdout.splitlines() if "UNRESOLVED" in line or "rror" in line]
            return folder, "; ".join(lines[:3]) or f"Ivy ended with {ended.returncode}"
        with suppress(OSError):  # another process was first
            jars.rename(folder)
    return folder, ""
