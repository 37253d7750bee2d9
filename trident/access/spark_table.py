"""The table that Spark sees of a state: the key fields, then the fields of the value, with declared types."""

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.types import LongType, StructField, StructType

from trident.base.errors import StateShapeError, TopologyError
from trident.base.spark_types import arrow_schema, spark_schema
from trident.reads.flat_tables import spread_structs
from trident.reads.state_description import StateDescription


class SparkTable:
    """The columns of a state, known without a read of its values.

    They are those of ``toPandas``: a value with fields has a column for each of them. With `txid_column`, a last column
    of this name holds the txid as of which a row was read.

    Raises StateShapeError if the type of a value is not declared, and TopologyError if `txid_column` is taken.
    """

    def __init__(self, state: StateDescription, txid_column: str | None = None) -> None:
        values = [state.output] if state.parts is None else list(state.parts)
        if None in state.types:
            raise StateShapeError(
                f"state {state.name!r}: the type of its values is not declared; annotate what present(acc) returns"
            )
        keys = [pa.field(field.name, field.type) for field in state.shape.keys]
        self._shown = pa.schema([*keys, *map(pa.field, values, state.types)])
        columns = [pa.field(field.name, field.type) for field in spread_structs(self._shown.empty_table()).schema]
        self._flat = arrow_schema(spark_schema(pa.schema(columns)))
        self._txid_column = txid_column
        if txid_column in self._flat.names:
            raise TopologyError(
                f"txidColumn={txid_column!r}: state {state.name!r} has a column of this name; choose another name"
            )

    @property
    def schema(self) -> StructType:
        """The columns as Spark's types. All are nullable."""
        txid = [] if self._txid_column is None else [StructField(self._txid_column, LongType())]
        return StructType([*spark_schema(self._flat).fields, *txid])

    def batches(self, shown: pa.Table, txid: int | None) -> Iterator[pa.RecordBatch]:
        """Return entries as `StateView.toArrow` shows them, in these columns; `txid` is that of the read."""
        # A column inferred from values gets another type if it has no value, or only small ones.
        flat = spread_structs(shown.replace_schema_metadata(None).cast(self._shown)).cast(self._flat)
        if self._txid_column is not None:
            flat = flat.append_column(self._txid_column, pa.repeat(pa.scalar(txid, pa.int64()), flat.num_rows))
        yield from flat.to_batches()
