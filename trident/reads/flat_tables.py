"""Tables for pandas: structs become several columns, and no value is rounded."""

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.pandas_series import flat_series

if TYPE_CHECKING:
    import pandas as pd


def spread_structs(table: pa.Table) -> pa.Table:
    """Return the table with a column for each field of a struct, in place of the struct.

    Such a column has the name of the field, or ``struct.field`` if another column has that name already. Nested structs
    are spread, too. Lists and maps stay as they are.

    >>> spread_structs(pa.table({"id": [1], "value": [{"id": 7, "step": {"name": "each"}}]})).to_pydict()
    {'id': [1], 'value.id': [7], 'name': ['each']}
    """
    columns = [leaf for name in table.column_names for leaf in _leaves((name,), table.column(name))]
    short = [path[-1] for path, _ in columns]
    names = [path[-1] if len(path) == 1 or short.count(path[-1]) == 1 else ".".join(path) for path, _ in columns]
    return pa.table([column for _, column in columns], names=names).replace_schema_metadata(table.schema.metadata)


def to_frame(table: pa.Table) -> "pd.DataFrame":
    """Return a table as a DataFrame: structs as dicts, lists and maps as lists, with the numbers in them unchanged."""
    import pandas as pd  # imported only when needed, because the import takes long

    series = {
        # Arrow would convert whole numbers beside nulls to doubles, even in structs.
        name: pd.Series(column.to_pylist(), dtype=object) if pa.types.is_nested(column.type) else flat_series(column)
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return pd.DataFrame(series, index=pd.RangeIndex(table.num_rows))


def _leaves(path: tuple[str, ...], column: pa.ChunkedArray) -> list[tuple[tuple[str, ...], pa.ChunkedArray]]:
    if not pa.types.is_struct(column.type) or not column.type.num_fields:
        return [(path, column)]
    fields = [(column.type.field(at).name, pc.struct_field(column, [at])) for at in range(column.type.num_fields)]
    return [leaf for name, field in fields for leaf in _leaves((*path, name), field)]
