"""The rows of an answer, as a list of PySpark Rows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Row

from trident.base.value_conversion import to_python

if TYPE_CHECKING:
    import pandas as pd


class AnswerRows(list[Row]):
    """The rows of an answer, with the names of their fields and, for each batch group, the txid that they show."""

    def __init__(self, table: pa.Table, txids: Mapping[str, int]) -> None:
        self._table = table
        self._fill(table.column_names, list(map(to_python, table.columns)), table.num_rows, txids)

    def _fill(self, fields: Iterable[str], columns: Sequence[list[Any]], count: int, txids: Mapping[str, int]) -> None:
        """Fill this list with rows, made of the values of each field."""
        self.fields: tuple[str, ...] = tuple(fields)
        self.txids = dict(txids)
        row = Row(*self.fields)
        # The key of a state of one value has no fields, so its answer can be one row without values.
        rows = zip(*columns, strict=True) if columns else iter([()] * count)
        super().__init__(row(*values) for values in rows)

    @property
    def asOfTxid(self) -> int | dict[str, int] | None:
        """The txid of the last batch that the answer shows; a dict by batch group if there are several."""
        if len(self.txids) > 1:
            return self.txids
        return next(iter(self.txids.values()), None)

    def toArrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with the declared types."""
        return self._table

    def toPandas(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame."""
        frame: pd.DataFrame = self.toArrow().to_pandas()
        frame.attrs["asOfTxid"] = self.asOfTxid
        return frame
