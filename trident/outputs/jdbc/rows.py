"""Rows as text for COPY: CSV in which a null is empty, and each value is quoted."""

from collections.abc import Callable

import pyarrow as pa
from pyarrow import csv
from pyarrow import types as kinds

from trident.base.json_values import to_json
from trident.base.value_conversion import to_python
from trident.base.years import OUTSIDE_YEARS, row_outside_years, time_text
from trident_state.binary_arrays import one_chunk

_FORM = csv.WriteOptions(include_header=False, quoting_style="all_valid")


def as_csv(rows: pa.Table) -> bytes:
    r"""Return rows as CSV, as PostgreSQL reads them. Raises ValueError for a time that PostgreSQL would misread.

    >>> as_csv(pa.table({"name": ["dog", None, ""], "raw": [b"a", b"", None]}))
    b'"dog","\\x61"\n,"\\x"\n"",\n'
    """
    columns = [_text(name, rows.column(name)) for name in rows.column_names]
    sink = pa.BufferOutputStream()
    csv.write_csv(pa.table(columns, names=rows.column_names), sink, _FORM)
    return bytes(sink.getvalue())


def _text(name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column in a type whose CSV PostgreSQL reads as the same values."""
    outside = row_outside_years(column)
    if outside is not None:
        raise ValueError(f"field {name!r} has the time {time_text(column, outside)}; {OUTSIDE_YEARS}")
    make = next((make for fits, make in _MADE if fits(column.type)), None)
    return column if make is None else make(column)


def _each(form: Callable[[object], str]) -> Callable[[pa.ChunkedArray], pa.Array]:
    def made(column: pa.ChunkedArray) -> pa.Array:
        values = to_python(one_chunk(column))
        return pa.array([None if value is None else form(value) for value in values], pa.string())

    return made


def _hex(value: object) -> str:
    assert isinstance(value, bytes)
    return f"\\x{value.hex()}"


_MADE: tuple[tuple[Callable[[pa.DataType], bool], Callable[[pa.ChunkedArray], pa.Array]], ...] = (
    (lambda kind: kinds.is_binary(kind) or kinds.is_large_binary(kind), _each(_hex)),
    (kinds.is_nested, _each(to_json)),
)
