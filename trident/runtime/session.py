"""Which Spark session a run works with."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_for(spark: "SparkSession | None") -> "SparkSession":
    """The given session, else the active one, else a local one. It is never changed: a run works on its own."""
    from pyspark.sql import SparkSession

    if spark is not None:
        return spark
    return SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
