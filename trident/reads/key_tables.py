"""Keys as users give them to a view: as the table and as the tuples that stores read."""

from typing import Any

import pyarrow as pa

from trident.base.errors import StateKeyError
from trident.base.named_values import misplaced
from trident.base.names import quote
from trident.base.short_texts import typed_brief
from trident.base.value_conversion import NotAccepted, to_arrow, to_python, type_name


def key_table(state: str, fields: pa.Schema, keys: list[Any]) -> pa.Table:
    """Return keys as a table of the key fields. Raises StateKeyError if a key is not of these types.

    A key is the plain value of the only field, a tuple of the values of several fields, or () if there is no field.
    """
    if not len(fields):
        if any(key != () for key in keys):
            raise StateKeyError(f"state {state!r} is one global value without a key: read view.value")
        return _rows_without_columns(len(keys))
    if len(fields) == 1:
        columns: list[Any] = [keys]
    else:
        for key in keys:
            if not isinstance(key, tuple | list) or len(key) != len(fields):
                raise StateKeyError(
                    f"state {state!r}: invalid key {typed_brief(key)}: "
                    f"expected a tuple of {len(fields)} values ({fields_text(fields)})"
                )
            if (why := misplaced(key, fields.names)) is not None:
                raise StateKeyError(f"state {state!r}: invalid key {typed_brief(key)}: {why}")
        columns = [[key[at] for key in keys] for at in range(len(fields))]
    arrays = [_key_column(state, fields, values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.Table.from_arrays(arrays, schema=fields)


def tuples_of(keys: pa.Table) -> list[tuple[Any, ...]]:
    """Return the rows of a key table as tuples."""
    return list(zip(*map(to_python, keys.columns), strict=True)) if keys.num_columns else [()] * keys.num_rows


def fields_text(fields: pa.Schema) -> str:
    """Return key fields with their types, as a user declares them.

    >>> fields_text(pa.schema({"user": pa.int64(), "day": pa.date32()}))
    'user bigint, day date'
    """
    return ", ".join(f"{quote(field.name)} {type_name(field.type)}" for field in fields)


def _key_column(state: str, fields: pa.Schema, values: list[Any], kind: pa.DataType) -> pa.Array:
    try:
        return to_arrow(values, kind)
    except NotAccepted as error:
        raise StateKeyError(
            f"state {state!r}: invalid key {typed_brief(error.value)}: expected "
            f"{fields_text(fields)}{f': {error.why}' if error.why else ''}"
        ) from None


def _rows_without_columns(count: int) -> pa.Table:
    """Return the key table of a global state. It has rows but no columns; `pa.table({})` would have no rows."""
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(pa.array([{}] * count, pa.struct([])))])
