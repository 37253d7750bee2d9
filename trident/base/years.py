"""The years 1 to 9999, which are the range of Python's datetime.

Arrow and Spark also hold times beyond them, which no datetime can represent.
"""

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

from trident.base.leaf_columns import leaves

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last microsecond of these years, in UTC."""

LONGEST = 3_652_425 * 86_400_000_000
"""10,000 years in microseconds. The distance of any two times in these years is less."""

OUTSIDE_YEARS = "in UTC it is outside the years 1 to 9999, the times that Python knows"
"""The reason why a time is not accepted, in words for messages."""

_UNITS_OF_A_DAY = {"s": 86_400, "ms": 86_400_000, "us": 86_400_000_000, "ns": 86_400_000_000_000}
_FIRST_DAY, _LAST_DAY = -719_162, 2_932_896


def row_outside_years(column: pa.Array | pa.ChunkedArray) -> int | None:
    """Return the number of the first row with a value that is, or contains, a time or day outside the years 1 to 9999.

    Return None if there is no such row.

    >>> row_outside_years(pa.array([0, LAST + 1], pa.timestamp("us")))
    1
    """
    if not _has_times(column.type) or not _is_outside(column):
        return None
    low, high = 0, len(column)  # by bisection: there is such a row in column[low:high]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _is_outside(column[low:middle]) else (middle, high)
    return low


def time_text(column: pa.Array | pa.ChunkedArray, row: int) -> str:
    """Return the time in a row that `row_outside_years` found, as text. Arrow formats it, because Python cannot.

    >>> time_text(pa.array([LAST + 1], pa.timestamp("us", "UTC")), 0)
    '10000-01-01 00:00:00.000000'
    """
    value = column[row : row + 1]
    chunks = value.chunks if isinstance(value, pa.ChunkedArray) else [value]
    leaf = next(leaf for chunk in chunks for leaf in leaves(chunk) if _leaf_is_outside(leaf))
    if kinds.is_timestamp(leaf.type):
        leaf = leaf.cast(pa.int64()).cast(pa.timestamp(leaf.type.unit))  # without a zone: Arrow may not know it
    found = row_outside_years(leaf)
    return str(leaf.cast(pa.string())[found])


def entry_text(keys: pa.Table | pa.RecordBatch, row: int) -> str:
    """Return an entry's key as a message shows it, whatever times it contains; "" without key fields.

    >>> entry_text(pa.table({"word": ["cow"], "at": pa.array([LAST + 1], pa.timestamp("us"))}), 0)
    "word='cow', at=10000-01-01 00:00:00.000000"
    """
    fields = zip(keys.schema.names, (column[row : row + 1] for column in keys.columns), strict=True)
    return ", ".join(
        f"{name}={repr(value[0].as_py()) if row_outside_years(value) is None else time_text(value, 0)}"
        for name, value in fields
    )


def _has_times(kind: pa.DataType) -> bool:
    if kinds.is_nested(kind):
        return any(_has_times(kind.field(at).type) for at in range(kind.num_fields))
    return bool(kinds.is_timestamp(kind) or kinds.is_date(kind))


def _is_outside(column: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a value, or a value inside it, is a time or day outside these years."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return any(_leaf_is_outside(leaf) for chunk in chunks for leaf in leaves(chunk))


def _leaf_is_outside(leaf: pa.Array) -> bool:
    kind = leaf.type
    if not (kinds.is_timestamp(kind) or kinds.is_date(kind)):
        return False
    numbers = leaf.cast(pa.int32()) if kinds.is_date32(kind) else leaf.cast(pa.int64())
    unit = 1 if kinds.is_date32(kind) else _UNITS_OF_A_DAY["ms" if kinds.is_date(kind) else kind.unit]
    least, most = pc.min_max(numbers).as_py().values()
    return least is not None and (least < _FIRST_DAY * unit or most >= (_LAST_DAY + 1) * unit)
