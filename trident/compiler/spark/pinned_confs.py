"""Settings of Spark on which exactness depends, set in every session of a run. The user's session may have others.

The user's own session is never changed. The guide lists these settings with their reasons (docs/guide/running.md).
"""

import logging
from collections.abc import Mapping
from types import MappingProxyType

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from trident.base.errors import SparkSetupError

logger = logging.getLogger(__name__)

_PARQUET = "spark.sql.parquet"
_CHECKSUM = "spark.sql.shuffle.orderIndependentChecksum"

PINNED: Mapping[str, str] = MappingProxyType(
    {
        # an overflow is an error, and neither a wrapped number nor a null
        "spark.sql.ansi.enabled": "true",
        # Spark notices shuffle files that were computed again with other rows, and reruns the tasks that read the old
        # ones
        f"{_CHECKSUM}.enabled": "true",
        f"{_CHECKSUM}.enableFullRetryOnMismatch": "true",
        # a task that runs again sends each row to the partition that it went to before
        "spark.sql.execution.sortBeforeRepartition": "true",
        # a file that cannot be read is an error, and not a file without rows
        "spark.sql.files.ignoreCorruptFiles": "false",
        "spark.sql.files.ignoreMissingFiles": "false",
        "spark.sql.files.ignoreInvalidPartitionPaths": "false",
        "spark.sql.files.ignoredPathSegmentRegex": "^[._]",
        # Parquet holds the same values for Spark and for Python, which reads the same batch in another plan
        f"{_PARQUET}.datetimeRebaseModeInRead": "CORRECTED",
        f"{_PARQUET}.datetimeRebaseModeInWrite": "CORRECTED",
        f"{_PARQUET}.int96RebaseModeInRead": "CORRECTED",
        f"{_PARQUET}.int96RebaseModeInWrite": "CORRECTED",
        f"{_PARQUET}.int96TimestampConversion": "false",
        f"{_PARQUET}.int96AsTimestamp": "true",
        f"{_PARQUET}.inferTimestampNTZ.enabled": "true",
        f"{_PARQUET}.binaryAsString": "false",
        f"{_PARQUET}.fieldId.read.enabled": "false",
        f"{_PARQUET}.mergeSchema": "false",
        # a filter keeps NaN and both zeros: the statistics of a file leave out NaN, and those of -0.0 exclude 0.0
        f"{_PARQUET}.filterPushdown": "false",
        # the type "timestamp" is an instant, as it is everywhere in a topology
        "spark.sql.timestampType": "TIMESTAMP_LTZ",
    }
)
"""The pinned settings by their names, each with the value that it has in every session of a run."""

SPECULATION = "spark.speculation"

_warned: set[tuple[str, str]] = set()
"""Settings (name, user's value) about which a warning was logged. It is logged once in a process, though a run has many
sessions."""


def pin(session: SparkSession, user_conf: Mapping[str, str]) -> None:
    """Set the pinned settings in a session of a run; `user_conf` has the settings of the user's session.

    Logs a warning for each pinned setting that has another value in the user's session. Raises SparkSetupError if Spark
    does not let a session set one.
    """
    for key, value in PINNED.items():
        user_value = user_conf.get(key, value)
        if user_value.lower() != value.lower() and (key, user_value) not in _warned:
            _warned.add((key, user_value))
            logger.warning(
                "%s is %s in the given session; batches run with %s, because exact results need it "
                "(docs/guide/running.md)", key, user_value, value,
            )  # fmt: skip
        try:
            session.conf.set(key, value)
        except PySparkException as error:
            raise SparkSetupError(
                f"exact results need {key}={value}, but Spark does not let a session set it: "
                f"{str(error).partition(chr(10))[0]}; set it when Spark is started (spark-defaults.conf, or "
                f'SparkSession.builder.config("{key}", "{value}"))'
            ) from None


def check_single_evaluation(session: SparkSession) -> None:
    """Check, before tuples are kept for several readers, that Spark never evaluates one partition in two tasks at once.

    The two tasks could produce different values. Raises SparkSetupError if speculation is on.
    """
    if (session.conf.get(SPECULATION, None) or "").lower() == "true":
        raise SparkSetupError(
            "spark.speculation is on, and several steps read the same tuples: two copies of a task could give the "
            "tuples different values; start Spark with spark.speculation=false (slow tasks are then not duplicated)"
        )
