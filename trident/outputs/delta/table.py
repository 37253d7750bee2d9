"""The table that an output writes to: either it matches the fields of the stream, or it does not exist yet."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from trident.base.change_kinds import CHANGE
from trident.base.errors import OutputConflictError, OutputError
from trident.base.names import did_you_mean
from trident.base.spark_types import ddl, type_ddl
from trident.files.delta_folder import TableFolder
from trident.plan.delta_target import DeltaTarget
from trident_spouts.delta.change_feed import ENABLED, VERSION
from trident_spouts.delta.commits import LOG
from trident_spouts.delta.table import schema_from

Refuse = Callable[[str], OutputError]

_COMPUTED = ("delta.generationExpression", "delta.identity.")
_FEED = (CHANGE, VERSION, "_commit_timestamp")
"""The columns that the change data feed adds when it is read."""


def check_vacant(folder: TableFolder) -> None:
    """Raise OutputConflictError for a folder without a table that has other files."""
    others = sorted(name for name in folder.entries() if name != LOG)
    if others:
        raise OutputConflictError(
            f"{folder.shown} has no Delta table, but other files ({', '.join(others[:3])}): name an empty or a new "
            f"folder, in which the output creates a table, or the folder of a table. Nothing was written"
        )


def check_fits(table: Any, target: DeltaTarget, fields: StructType, refuse: Refuse) -> None:
    """Raise the error of `refuse` if a table cannot take the tuples of a stream with these fields."""
    columns = schema_from(str(table.schema().to_json()))
    for field in fields.fields:
        if field.name not in columns.names:
            near = did_you_mean(field.name, columns.names)
            raise refuse(
                f"the table has no column {field.name!r}; it has ({ddl(columns)}){near}. Add the column, rename the "
                f"field, or leave it out with project"
            )
        kind = columns[field.name].dataType
        if kind.simpleString() != field.dataType.simpleString():
            raise refuse(
                f"field {field.name!r} is {type_ddl(field.dataType)}, and the column is {type_ddl(kind)}: cast the "
                f"field before writeDelta, or change the column"
            )
    _check_columns(json.loads(str(table.schema().to_json()))["fields"], fields, refuse)
    metadata = table.metadata()
    _check_partitions(list(metadata.partition_columns), target, refuse)
    _check_configuration(metadata.configuration, target, fields, refuse)


def _check_columns(columns: list[dict[str, Any]], fields: StructType, refuse: Refuse) -> None:
    """Refuse a table that computes values, or that requires values for other columns."""
    for column in columns:
        if any(name.startswith(_COMPUTED) for name in column["metadata"]):
            raise refuse(
                f"Delta computes the values of the column {column['name']!r} (a generated or identity column), which "
                f"only some writers do; write into a table without such a column"
            )
        if column["name"] not in fields.names and not column["nullable"]:
            raise refuse(
                f"the table has the column {column['name']!r}, which is NOT NULL, and the stream has no such field; "
                f"add the field, or let the column be null"
            )


def _check_partitions(held: list[str], target: DeltaTarget, refuse: Refuse) -> None:
    if held != list(target.partitions):
        by = f"partitioned by ({', '.join(held)})" if held else "not partitioned"
        way_out = f"partitionBy={held!r}" if held else "leave partitionBy= out"
        raise refuse(
            f"the table is {by}, and the output says partitionBy={list(target.partitions)!r}: write {way_out}, or give "
            f"another path"
        )


def _check_configuration(held: Mapping[str, str], target: DeltaTarget, fields: StructType, refuse: Refuse) -> None:
    def has(name: str) -> bool:
        return str(held.get(name)).lower() == "true"

    if held.get("delta.columnMapping.mode") not in (None, "none"):
        raise refuse("the table has mapped columns (delta.columnMapping.mode), which this output does not write")
    if target.key and has("delta.appendOnly"):
        raise refuse("the table is append-only (delta.appendOnly), and key= replaces rows; drop the property or key=")
    taken = [name for name in _FEED if name in fields.names]
    if taken and has(ENABLED):
        raise refuse(
            f"the table keeps a change data feed, which has a column {taken[0]!r} of its own: rename the field"
        )


def schema_of(table: Any) -> pa.Schema:
    """Return the columns of a table, as Arrow has them."""
    return pa.schema(table.schema().to_arrow())
