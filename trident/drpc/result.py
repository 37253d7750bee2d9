"""What a DRPC request is answered with."""

import html
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import Row

from trident.base.values import to_python

if TYPE_CHECKING:
    import pandas as pd


class DRPCResult(list[Row]):
    """The rows that a request came to, and as of which batch they were read. A list of PySpark Rows.

    Attributes
    ----------
    fields : the names of the rows' fields, also where there is no row.
    asOfTxid : the txid of the last batch that the answer shows; one for each batch group by name where it was read from
        several, None where no state was read (or only a non-transactional one).
    """

    def __init__(self, table: pa.Table, asOfTxid: Mapping[str, int]) -> None:
        self.fields: tuple[str, ...] = tuple(table.column_names)
        self._table = table
        row = Row(*self.fields)
        columns = [to_python(column) for column in table.columns]
        super().__init__(row(*values) for values in zip(*columns, strict=True))
        txids = dict(asOfTxid)
        self.asOfTxid: int | dict[str, int] | None = (
            None if not txids else next(iter(txids.values())) if len(txids) == 1 else txids
        )

    def toArrow(self) -> pa.Table:
        """Return the rows as an Arrow table, with the declared types."""
        return self._table

    def toPandas(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame."""
        frame: pd.DataFrame = self._table.to_pandas()
        frame.attrs["asOfTxid"] = self.asOfTxid
        return frame

    def _repr_html_(self) -> str:
        names = "".join(f"<th>{html.escape(name)}</th>" for name in self.fields)
        rows = "".join("<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in row) + "</tr>" for row in self)
        return f"<table><tr>{names}</tr>{rows}</table><i>as of txid {html.escape(str(self.asOfTxid))}</i>"
