"""Calls of functions over pandas objects: one call for each slice of the tuples, and checks of the results.

A slice is a record batch on Spark, a batch or partition on the embedded engine, or a DRPC request. A slice is never
empty, and never holds tuples of two partitions or requests.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa

from trident.base.accepted_values import check_nulls
from trident.base.errors import UserFunctionError
from trident.base.user_code_notes import noting_if_it_ends
from trident.base.value_conversion import NotAccepted, type_name
from trident.compiler.columns.columns import Column, Columns, concat
from trident.compiler.columns.dead_letters import Caught, Letters
from trident.compiler.columns.function_errors import Where, reason, short, typed
from trident.compiler.columns.pandas_columns import WrongDtype, from_series, to_frame, to_series
from trident.compiler.columns.row_failures import Failure
from trident.operations.functions import Call, Operation

_KEPT = pa.field("kept", pa.bool_())


def call_pandas(target: Callable[..., Any], call: Call, where: Where, columns: Columns) -> Any:
    """Call a function over pandas objects with these tuples, and return its result.

    An exception of the user's code becomes an error that shows the first tuple.
    """
    names = where.inputs
    if call is Call.PANDAS_FRAME:
        arguments: list[Any] = [to_frame(columns, names)]
    else:
        arguments = [to_series(columns[name], name) for name in names]
    try:
        return target(*arguments)
    except (Exception, SystemExit) as cause:  # a SystemExit must not end a worker or the driver's thread
        error = where.raised(cause, tuple_at(columns, names, 0), 0, columns.rows)
        if isinstance(error, UserFunctionError):
            error.row = 0  # any row: the failing tuple is not known
        if error is cause:
            raise
        raise error from cause


def tuple_at(columns: Columns, names: Sequence[str], row: int) -> list[list[Any]]:
    """Return these fields of one tuple, for errors: a list of one value per field; empty lists if there is no tuple."""
    return columns.select(names).take([row] if columns.rows else []).lists(names)


def value_column(where: Where, values: list[Any], field: pa.Field) -> Column:
    """Return the values of a function, one for each group, as a column of the declared type."""
    objects = pd.Series(np.fromiter(values, object, len(values)))  # unchanged: pandas would convert them to one type
    try:
        return Column.of(from_series(objects, field.type))
    except NotAccepted as error:
        what = f"returned {typed(error.value)} for field {field.name!r}, which is declared as {type_name(field.type)}"
        raise where.error(f"{what}{reason(error)}") from None


@dataclass(frozen=True, slots=True)
class PandasKernel:
    """A kernel that calls a function over pandas objects once, for all of its input tuples.

    `outputs` are the function's output fields; a filter has none. The result holds only the fields in `after`.
    """

    verb: Literal["filter", "each", "map"]
    operation: Operation
    where: Where
    outputs: pa.Schema
    after: frozenset[str]

    def __call__(self, columns: Columns) -> Columns:
        if not columns.rows:
            return self._leaving(columns, [Column(field.type, pa.nulls(0, field.type), None) for field in self.outputs])
        result = call_pandas(self.operation.target, self.operation.call, self.where, columns)
        if self.verb == "filter":
            (kept,) = self._fields(result, columns, pa.schema([_KEPT]))
            return columns.only(self.after).keep(self._mask(kept, columns))
        return self._leaving(columns, self._fields(result, columns, self.outputs))

    def catching(self, caught: Caught) -> Callable[[Columns, Letters], Columns]:
        """Return a kernel that leaves out the tuples on which the function fails, and adds them to the letters.

        A slice on which the function fails is halved until it fails on a single tuple. So if the function's result for
        a tuple does not depend on the other tuples, exactly the tuples on which the function fails are left out. A
        slice of several tuples that fails counts and warns of nothing: its halves do.
        """

        def run(columns: Columns, letters: Letters) -> Columns:
            try:
                with noting_if_it_ends() if columns.rows > 1 else nullcontext():
                    return self(columns)
            except UserFunctionError as error:
                if error.hopeless or error.row is None:
                    raise
                failure = Failure.of(error)
            if columns.rows == 1:
                letters.add(self.where, caught, columns, [failure])
                return self(columns.take([]))
            middle = columns.rows // 2
            halves = columns.take(range(middle)), columns.take(range(middle, columns.rows))
            return concat([run(half, letters) for half in halves])

        return run

    def _fields(self, result: Any, columns: Columns, fields: pa.Schema) -> list[Column]:
        """Return the function's result as columns of these fields."""
        series = self._series(result, fields)
        if len(result) != columns.rows and not self.operation.many:
            hint = "one for each tuple" if self.verb == "filter" else "one for each tuple; flatMap takes any number"
            raise self.where.error(f"returned {len(result)} rows for {columns.rows} tuples: return {hint}")
        pairs = zip(series, fields, strict=True)
        return [self._column(own, field, columns) for own, field in pairs]

    def _series(self, result: Any, fields: pa.Schema) -> "list[pd.Series[Any]]":
        """Return the Series of each field in a result: a DataFrame's columns, or the Series itself."""
        if isinstance(result, pd.DataFrame):
            return self._of_frame(result, fields)
        if isinstance(result, np.ndarray | pd.Index | pd.api.extensions.ExtensionArray) and result.ndim == 1:
            result = pd.Series(result)
        if not isinstance(result, pd.Series):
            expected = "a Series" if len(fields) == 1 else "a DataFrame"
            raise self.where.error(f"returned {short(result)} ({type(result).__name__}); expected {expected}")
        if len(fields) != 1:
            declared = ", ".join(fields.names)
            problem = f"returned a Series for {len(fields)} output fields ({declared})"
            raise self.where.error(f"{problem}; return a DataFrame with these columns")
        return [result]

    def _of_frame(self, frame: pd.DataFrame, fields: pa.Schema) -> "list[pd.Series[Any]]":
        """Return a DataFrame's columns by name; by position if no column has a text as its name."""
        labels = list(frame.columns)
        if not any(isinstance(label, str) for label in labels) and len(labels) == len(fields):
            return [frame.iloc[:, at] for at in range(len(labels))]
        for name in fields.names:
            if labels.count(name) != 1:
                times = "without a column" if name not in labels else "with two columns"
                listed = ", ".join(map(str, labels))
                raise self.where.error(f"returned a DataFrame {times} {name!r}; its columns are ({listed})")
        return [frame[name] for name in fields.names]

    def _column(self, series: "pd.Series[Any]", field: pa.Field, columns: Columns) -> Column:
        try:
            array = from_series(series, field.type)
            check_nulls(array.to_pylist() if array.null_count and not field.nullable else (), field)
            return Column.of(array)
        except WrongDtype as error:
            declared = f"{self._expected(field)}{f' {error}' if str(error) else ''}"
            raise self.where.error(f"returned a Series of {series.dtype} for {declared}") from None
        except NotAccepted as error:
            what = f"{typed(error.value)} for {self._expected(field)}"
            if not self.operation.many:
                raise self.where.gave(what, tuple_at(columns, self.where.inputs, error.row), 0, error.why) from None
            failure = self.where.error(f"gave {what}{reason(error)}")
            failure.row = 0  # any row: the tuple of this result is not known
            raise failure from None

    def _expected(self, field: pa.Field) -> str:
        if self.verb == "filter":
            return "a filter, which returns True or False"
        return f"field {field.name!r}, declared {type_name(field.type)}"

    def _mask(self, kept: Column, columns: Columns) -> list[bool]:
        """Return for each tuple whether a filter keeps it. Raises an error for a null."""
        mask = kept.values()
        if None in mask:
            hint = "write .fillna(False)"
            raise self.where.gave(
                f"null for {self._expected(_KEPT)}", tuple_at(columns, self.where.inputs, mask.index(None)), 0, hint
            )
        return mask

    def _leaving(self, columns: Columns, fields: list[Column]) -> Columns:
        """Return the tuples with only the fields of the function's result."""
        added = {name: column for name, column in zip(self.outputs.names, fields, strict=True) if name in self.after}
        rest = columns.only(self.after - added.keys())
        if not self.operation.many:
            return rest.plus(added)
        # A map replaces all fields. The remaining hidden fields mark the tuples' partition or request: they are equal
        # in all rows. Another field would belong to one tuple, and no row of the result does.
        assert all(name.startswith(("\0", "__trident")) for name in rest.names), rest.names
        rows = len(fields[0])
        marks = rest.take([0] * rows)
        return Columns({name: marks[name] for name in marks.names} | added, rows)
