"""The types that Parquet can hold."""

import pyarrow as pa
from pyarrow import types as kinds


def unstorable(schema: pa.Schema) -> str | None:
    """Return the name of the first field that Parquet cannot hold; None if it can hold all fields.

    >>> unstorable(pa.schema([("n", pa.int64()), ("took", pa.duration("us"))]))
    'took'
    """
    return next((field.name for field in schema if not _storable(field.type)), None)


def _storable(kind: pa.DataType) -> bool:
    if kinds.is_null(kind) or kinds.is_duration(kind) or kinds.is_interval(kind):
        return False
    if kinds.is_struct(kind) and kind.num_fields == 0:
        return False
    return all(_storable(kind.field(at).type) for at in range(kind.num_fields))


def names_folders(kind: pa.DataType) -> bool:
    """Return whether values of this type can be folder names."""
    return bool(kinds.is_string(kind) or kinds.is_integer(kind) or kinds.is_boolean(kind) or kinds.is_date(kind))
