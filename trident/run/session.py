"""The Spark session of a run."""

import sys
from typing import TYPE_CHECKING

from trident.base.errors import TopologyError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_for(spark: "SparkSession | None") -> "SparkSession":
    """Return the given session, otherwise the active session, otherwise a local session.

    The run creates its sessions from it.
    """
    from pyspark.sql import SparkSession

    from trident.compiler.spark.sessions import local_session

    if spark is not None:
        return _alive(spark)
    return SparkSession.getActiveSession() or local_session()


def is_at_hand(spark: "SparkSession | None") -> bool:
    """Return whether `session_for` can return a session without starting Spark."""
    if spark is not None:
        return True
    if "pyspark.sql.session" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession() is not None


def _alive(spark: "SparkSession") -> "SparkSession":
    """Return the session. Raises TopologyError if it is not a Spark session, or was stopped."""
    from trident.compiler.columns.function_errors import short
    from trident.compiler.spark.sessions import is_connect, is_stopped

    if not callable(getattr(spark, "createDataFrame", None)):
        raise TopologyError(
            f"start takes a SparkSession, not {short(spark)}; without one it uses the active session, or creates one"
        )
    if spark.is_stopped if is_connect(spark) else is_stopped(spark):  # type: ignore[attr-defined]
        raise TopologyError("the SparkSession has been stopped; give a running one, or none")
    return spark
