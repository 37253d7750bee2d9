"""Arrow columns as pandas Series that hold the same values."""

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as kinds

if TYPE_CHECKING:
    import pandas as pd

_EXACT_IN_DOUBLE = 2**53


def flat_series(column: pa.Array | pa.ChunkedArray) -> "pd.Series[Any]":
    """Return a column that is not nested as a Series. The Series may share Arrow's memory.

    Whole numbers beside nulls become doubles, as always in pandas, or Int64 if a double would round one of them.

    >>> flat_series(pa.array([2**53 + 1, None])).tolist()
    [9007199254740993, <NA>]
    """
    import pandas as pd  # only where it is needed: its import takes long

    exact = kinds.is_int64(column.type) and column.null_count and _is_beyond_double(column)
    series: pd.Series[Any] = column.to_pandas(types_mapper=(lambda _: pd.Int64Dtype()) if exact else None)
    return series


def _is_beyond_double(column: pa.Array | pa.ChunkedArray) -> bool:
    least, most = pc.min_max(column).as_py().values()
    return least is not None and (least < -_EXACT_IN_DOUBLE or most > _EXACT_IN_DOUBLE)
