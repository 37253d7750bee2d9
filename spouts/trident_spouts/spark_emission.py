"""The emission of a SparkSpout: the DataFrame that a user's function returns, checked before it is used."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.callsite import site_of
from trident.base.copied_values import own_value
from trident.base.errors import MissingSessionError, SpoutContractError
from trident.base.short_texts import typed_brief
from trident.base.spark_types import ddl, type_ddl
from trident_spouts.executor import Emission, Metadata
from trident_spouts.rows import RowsLike
from trident_spouts.user_calls import call_function, made_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Read = Callable[["SparkSession", Any], "DataFrame"]
ReadLocal = Callable[[Any], RowsLike]


@dataclass(frozen=True, slots=True, eq=False)
class SparkEmission(Emission):
    """The tuples for one batch's metadata: a DataFrame from `read`, or rows in memory from `read_local`."""

    read: Read
    read_local: ReadLocal | None
    metadata: Metadata
    schema: StructType

    @property
    def rows(self) -> int | None:
        """Return the number of rows that the metadata names; None if the metadata names no number."""
        return _amount(self.metadata, "rows")

    @property
    def bytes(self) -> int | None:
        """Return the number of bytes that the metadata names; None if the metadata names no number."""
        return _amount(self.metadata, "bytes")

    def arrow(self) -> pa.Table:
        """Return the rows of `read_local`. Raises MissingSessionError if `read_local` is None."""
        if self.read_local is None:
            raise MissingSessionError(
                f"SparkSpout: {site_of(self.read)} needs Spark to read its rows; start the topology with "
                f"engine='spark', or give readLocal=, a function of the metadata that returns the same rows without "
                f"Spark"
            )
        rows = call_function("SparkSpout", self.read_local, own_value(self.metadata))
        return made_table(rows, self.schema, f"SparkSpout: {site_of(self.read_local)}")

    def dataframe(self, spark: "SparkSession", scratch: Path) -> "DataFrame":
        """Return the DataFrame of the user's function. Raises SpoutContractError if it does not match the schema."""
        frame = call_function("SparkSpout", _analysed(self.read), spark, own_value(self.metadata))
        _check_frame(frame, self.schema, spark, f"SparkSpout: {site_of(self.read)}")
        return frame  # type: ignore[no-any-return]


def _amount(metadata: Metadata, name: str) -> int | None:
    amount = metadata.get(name) if isinstance(metadata, dict) else None
    return amount if isinstance(amount, int) and not isinstance(amount, bool) and amount >= 0 else None


def _analysed(read: Read) -> Read:
    """Return a function that calls `read`, and then checks the DataFrame's plan at once, on Spark Connect too.

    Connect sends a plan to the server only when a result is needed, and an error would then name no function.
    """

    @functools.wraps(read)
    def analysed(spark: "SparkSession", metadata: Metadata) -> "DataFrame":
        frame = read(spark, metadata)
        _ = getattr(frame, "schema", None)
        return frame

    return analysed


def _check_frame(frame: Any, schema: StructType, spark: "SparkSession", where: str) -> None:
    """Raise SpoutContractError unless `frame` is a DataFrame of this session with exactly the fields of `schema`."""
    from pyspark.sql import DataFrame

    if not isinstance(frame, DataFrame):
        raise SpoutContractError(f"{where} returned {typed_brief(frame)}; expected a DataFrame")
    if frame.isStreaming:
        raise SpoutContractError(
            f"{where} returned a streaming DataFrame; make it with spark.read in place of spark.readStream"
        )
    if _session_id(frame.sparkSession) != _session_id(spark):
        raise SpoutContractError(
            f"{where} returned a DataFrame of another SparkSession; make it from the session in its first argument, "
            f"which has the settings that exact results need"
        )
    if sorted(frame.columns) != sorted(schema.names):
        raise SpoutContractError(
            f"{where} returned a DataFrame with the fields ({ddl(frame.schema)}), but ({ddl(schema)}) is declared; "
            f"select or rename the fields there, or correct the declaration"
        )
    for field in schema.fields:
        came, declared = frame.schema[field.name], type_ddl(field.dataType)
        if came.dataType.simpleString() != field.dataType.simpleString():
            raise SpoutContractError(
                f"{where} returned a DataFrame with {field.name!r} as {type_ddl(came.dataType)}, but {declared} is "
                f"declared; cast it there: .withColumn({field.name!r}, col({field.name!r}).cast({declared!r}))"
            )
        if came.nullable and not field.nullable:
            raise SpoutContractError(
                f"{where} returned a DataFrame in which {field.name!r} may be null, but the field is NOT NULL; declare "
                f"it without NOT NULL"
            )


def _session_id(session: "SparkSession") -> str:
    """Return an id that distinguishes sessions, in classic mode and on Spark Connect."""
    java = getattr(session, "_jsparkSession", None)
    return str(session.session_id) if java is None else str(java.sessionUUID())  # type: ignore[attr-defined]
