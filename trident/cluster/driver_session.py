"""The Spark session of a driver that the command line starts."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from trident.cluster.spark_confs import read_confs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def driver_session(name: str, master: str | None, confs: Mapping[str, str]) -> "Iterator[SparkSession]":
    """Yield a session for the topology `name`, with secrets read here. Stop it at the end of the block."""
    from trident.compiler.spark.sessions import local_session

    session = local_session(master, {"spark.app.name": name, **read_confs(confs)})
    try:
        yield session
    finally:
        session.stop()


def is_later(engine: str, master: str | None, confs: Mapping[str, str]) -> bool:
    """Return whether a run starts a local Spark by itself, and only if it needs it. Small batches do not need it."""
    return engine == "auto" and master is None and not confs
