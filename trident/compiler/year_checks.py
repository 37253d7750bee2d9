"""Refuses results with times outside the years 1 to 9999, before they are frozen."""

from collections.abc import Sequence

import pyarrow as pa

from trident.base.discard_advice import reset_with
from trident.base.errors import StateValueError
from trident.base.years import OUTSIDE_YEARS, entry_text, row_outside_years, time_text

WAY_OUT = (
    "Filter such times out; if a batch with one is already frozen, drop the state (with dropState, it starts empty "
    f"after the batch), or discard log and all states ({reset_with()})"
)


def check_years(where: str, keys: pa.Table, columns: Sequence[pa.Array | pa.ChunkedArray]) -> None:
    """Refuse a result with a time that no datetime can hold, because stores, functions and readers cannot use it.

    Raises StateValueError, with the key fields of the time's row.
    """
    for column in columns:
        if (row := row_outside_years(column)) is not None:
            text, at = time_text(column, row), entry_text(keys, row)
            raise StateValueError(f"{where}{at and f', {at}'}: the time {text}: {OUTSIDE_YEARS}. {WAY_OUT}")
