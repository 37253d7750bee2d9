"""The result of a SQL query over states."""

import html
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa
from pyspark.sql import Row

from trident.base.cached_property import cached_property
from trident.base.html_table import html_table
from trident.base.value_conversion import to_python
from trident.reads.flat_tables import to_frame

if TYPE_CHECKING:
    import pandas as pd

_SHOWN_ROWS = 20


class SqlResult(Sequence[Row]):
    """The rows of a SQL query over states, as PySpark Rows, and the txids as of which the states were read.

    Meaning: the results of ``pyspark.sql.DataFrame``, with the names of its methods.

    Attributes
    ----------
    fields : tuple of str
        The names of the columns.
    txids : dict of str and int
        For each batch group of the states that the query names, the txid of the last batch that the result shows. It
        has no nonTransactional state, which is read with its latest values.

    Examples
    --------
    >>> result = SqlResult(pa.table({"word": ["dog", "cat"], "n": [2, 1]}), {"words": 7})
    >>> result.collect(), result.asOfTxid
    ([Row(word='dog', n=2), Row(word='cat', n=1)], 7)
    >>> result.first().n, len(result), result.toPandas().shape
    (2, 2, (2, 2))
    """

    def __init__(self, table: pa.Table, txids: Mapping[str, int]) -> None:
        self._table = table
        self.fields: tuple[str, ...] = tuple(table.column_names)
        self.txids = dict(txids)

    @property
    def asOfTxid(self) -> int | dict[str, int] | None:
        """The txid of the last batch that the result shows; a dict by batch group if there are several."""
        if len(self.txids) > 1:
            return self.txids
        return next(iter(self.txids.values()), None)

    @property
    def columns(self) -> list[str]:
        """The names of the columns, as PySpark's DataFrame has them."""
        return list(self.fields)

    def collect(self) -> list[Row]:
        """Return all rows."""
        return list(self._rows)

    def first(self) -> Row | None:
        """Return the first row; None if there is none."""
        return self._rows[0] if len(self) else None

    def toArrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        return self._table

    def toPandas(self) -> "pd.DataFrame":
        """Return the rows as a pandas DataFrame as of the txid in ``.attrs["asOfTxid"]``.

        Columns of one name get a number, as ``id`` and ``id_2``. Whole numbers beside nulls are doubles, as always in
        pandas, or of dtype ``Int64`` if a double would round one of them.
        """
        frame = to_frame(self._table.rename_columns(distinct_names(self.columns)))
        frame.attrs["asOfTxid"] = self.asOfTxid
        return frame

    def show(self, n: int = _SHOWN_ROWS) -> None:
        """Print the first `n` rows."""
        print(self.toPandas().head(n).to_string(index=False))

    @cached_property
    def _rows(self) -> list[Row]:
        row = Row(*self.fields)
        return [row(*values) for values in zip(*map(to_python, self._table.columns), strict=True)]

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> list[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | list[Row]:
        return self._rows[at]

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def __repr__(self) -> str:
        return f"SqlResult({len(self)} rows of {', '.join(self.fields)}{self._as_of()})"

    def _repr_html_(self) -> str:
        shown = self._table.slice(0, _SHOWN_ROWS)
        rows = html_table(self.fields, zip(*map(to_python, shown.columns), strict=True))
        more = f", the first {_SHOWN_ROWS} of {len(self)} rows" if len(self) > _SHOWN_ROWS else ""
        return f"{rows}<i>{html.escape(self._as_of().removeprefix(', '))}{more}</i>"

    def _as_of(self) -> str:
        return "" if not self.txids else ", as of " + ", ".join(f"txid {t} of {g}" for g, t in self.txids.items())


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return column names in which no name occurs twice.

    >>> distinct_names(["n", "n", "n_2"])
    ['n', 'n_3', 'n_2']
    """
    taken, shown = set(names), list[str]()
    for name in names:
        number, distinct = 2, name
        while distinct in shown or (distinct != name and distinct in taken):
            distinct, number = f"{name}_{number}", number + 1
        shown.append(distinct)
    return shown


Arguments = Sequence[Any] | Mapping[str, Any] | None
"""The values of a query's parameters: a list for ``?``, a dict for ``$name``."""
