"""Which Spark session a run works with."""

import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_for(spark: "SparkSession | None") -> "SparkSession":
    """The given session, else the active one, else a local one. It is never changed: a run works on its own."""
    from pyspark.sql import SparkSession

    if spark is not None:
        return spark
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    # else Spark's workers are whatever python3 is first on the PATH: not this one in a notebook whose kernel was
    # started from outside its environment
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    return SparkSession.builder.getOrCreate()
