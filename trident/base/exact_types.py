"""The Arrow types that hold the values of one Python type unchanged."""

import datetime
from typing import Any

import pyarrow as pa


def exact_type(kind: pa.DataType) -> type | None:
    """Return the Python type whose values a column of type `kind` returns unchanged; None if there is none."""
    return _EXACT.get(kind.id)


def are_exact(values: list[Any], kind: pa.DataType) -> bool:
    """Return whether every value is None or of the `exact_type` of `kind`.

    >>> are_exact([1, None], pa.int64()), are_exact([True], pa.int64())
    (True, False)
    """
    exact = exact_type(kind)
    return exact is not None and set(map(type, values)) <= {exact, type(None)}


_EXACT: dict[int, type] = {
    pa.string().id: str,
    pa.int8().id: int,
    pa.int16().id: int,
    pa.int32().id: int,
    pa.int64().id: int,
    pa.float64().id: float,
    pa.bool_().id: bool,
    pa.binary().id: bytes,
    pa.date32().id: datetime.date,
}
"""The exact types, by the number of the Arrow type. (The hash of the type itself is slow: Arrow writes it as text.)"""
