"""Stored values in the form in which readers see them: the results of an aggregator's `present`."""

import traceback
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from trident.base.callsite import CallSite, site_of
from trident.base.errors import StateValueError, TridentError, UserFunctionError
from trident.base.names import brief
from trident.base.short_texts import raised
from trident.base.value_conversion import NotAccepted, infer_arrow, to_arrow, to_python
from trident.base.verb_call import is_ours
from trident.base.years import entry_text
from trident.reads.state_description import StateDescription


class PresentedValues:
    """Presents the values of one state. It calls user code, so no read should be held meanwhile."""

    def __init__(self, state: StateDescription) -> None:
        self._name, self._shape = state.name, state.shape
        self._present, self._parts, self._types = state.present, state.parts, state.types

    def of(self, values: list[Any], entries: pa.Table | pa.RecordBatch) -> list[Any]:
        """Return stored `values`, which belong to `entries`, as readers see them."""
        return values if self._present is None else self._shown_by(self._present, values, entries)

    def column(self, values: list[Any]) -> pa.Array:
        """Return values from a read, as `of` returns them, as one Arrow column."""
        if self._present is None:
            return to_arrow(values, self._shape.value)
        if self._parts is None:
            return self._typed(values, self._types[0])
        columns = [
            self._typed([None if value is None else value[at] for value in values], kind)
            for at, kind in enumerate(self._types)
        ]
        missing = pa.array([value is None for value in values], pa.bool_())
        return pa.StructArray.from_arrays(columns, names=list(self._parts), mask=missing)

    def flat(self, table: pa.Table) -> pa.Table:
        """Return the table with the fields of the value as columns, each as the field's aggregator presents it."""
        parts = self._parts or {}
        *keys, values = table.columns
        columns = [
            column if present is None else self._typed(self._shown_by(present, to_python(column), table), kind)
            for present, kind, column in zip(parts.values(), self._types, values.flatten(), strict=True)
        ]
        return pa.table([*keys, *columns], names=[*self._shape.keys.names, *parts])

    def _typed(self, values: list[Any], kind: pa.DataType | None) -> pa.Array:
        """Return presented values as a column of their declared type, or of another type that holds all of them.

        A user's `present` may have no annotation, or a wrong one. Raises StateValueError if no type holds all values.
        """
        if kind is not None:
            try:
                return to_arrow(values, kind)
            except NotAccepted:
                pass
        try:
            return infer_arrow(values)
        except (pa.ArrowException, ArithmeticError, TypeError, ValueError) as error:
            raise StateValueError(
                f"state {self._name!r}: no column can hold the values that its aggregator presents: {error}. Let "
                f"present return values of one type (a Row may have fields of several); keys and items() read them as "
                f"they are"
            ) from None

    def _shown_by(
        self, present: Callable[[Any], Any], values: list[Any], entries: pa.Table | pa.RecordBatch
    ) -> list[Any]:
        """Return the results of an aggregator's `present` for the values of these entries; null for null."""
        shown: list[Any] = []
        try:
            for value in values:
                shown.append(None if value is None else present(value))
        except TridentError:
            raise
        except Exception as error:
            key = entry_text(entries.select(self._shape.keys.names), len(shown))
            raise UserFunctionError(
                f"state {self._name!r}{key and f', {key}'}: {_raising(present, error)} {raised(error)}; "
                f"the stored value was {brief(values[len(shown)])}"
            ) from error
        return shown


def _raising(present: Callable[[Any], Any], error: Exception) -> CallSite:
    """Return the user's function that raised.

    `present` may be a function of the library that calls it for several values.
    """
    site = site_of(present)
    if is_ours(site.file):
        for frame, line in traceback.walk_tb(error.__traceback__):
            if not is_ours(frame.f_code.co_filename):
                return CallSite(frame.f_code.co_qualname, frame.f_code.co_filename, line)
    return site
