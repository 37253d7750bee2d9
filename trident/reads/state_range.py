"""The result of a range read: its pairs in order, and the cursor of the next page."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from trident.reads.flat_tables import spread_structs, to_frame

if TYPE_CHECKING:
    import pandas as pd


class StateRange(list[tuple[Any, Any]]):
    """The (key, value) pairs of a range in the order of their keys, as of one txid. It is a list.

    Attributes
    ----------
    asOfTxid : the txid as of which the pairs were read; None for the latest values. after : the cursor of the next
    page; None if the range has no further key.

    Examples
    --------
    >>> from trident.reads.state_range import StateRange
    >>> StateRange([("ant", 1)], pa.table({"word": ["ant"], "count": [1]}), 7, None).toArrow().to_pydict()
    {'word': ['ant'], 'count': [1]}
    """

    def __init__(self, pairs: Iterable[tuple[Any, Any]], table: pa.Table, asOfTxid: int | None, after: str | None):
        super().__init__(pairs)
        self._table = table
        self.asOfTxid = asOfTxid
        self.after = after

    def toArrow(self) -> pa.Table:
        """Return the key fields and the values as a table; ``asOfTxid`` in the schema's metadata names the txid."""
        return self._table

    def toPandas(self) -> "pd.DataFrame":
        """Return the key fields and the values as a DataFrame. Each field of a value is one column."""
        return to_frame(spread_structs(self._table))
