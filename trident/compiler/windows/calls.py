"""How a window's aggregator is called over its tuples: the one meaning of all three kinds."""

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from trident.base.errors import FailedException
from trident.base.types import arrow_schema
from trident.base.values import NotAccepted
from trident.compiler.columns.calls import ListCollector, misfit
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where
from trident.operations.window_aggregators import Windowing
from trident.plan.nodes import Window, WindowPanes

Rows = Sequence[Any]
"""The tuples of one window, in order."""

CallWindow = Callable[[Rows, int], list[tuple[Any, ...]]]
"""From a window's tuples and its number to what the aggregator gives for it."""


def where_of(node: Window | WindowPanes) -> Where:
    """Whose call it is."""
    return Where(node.step, node.windowing.site, node.inputs)


def window_call(windowing: Windowing, where: Where) -> CallWindow:
    """The aggregator as a function of one window."""
    run = {"combiner": _combining, "reducer": _reducing, "aggregator": _aggregating}[windowing.kind](windowing)

    def call(rows: Rows, number: int) -> list[tuple[Any, ...]]:
        at = [0]
        try:
            return run(rows, number, at)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise where.raised(cause, list(zip(*rows, strict=True)), at[0]) from cause

    return call


def presenting(windowing: Windowing) -> Callable[[Any], Any] | None:
    """What leaves of a value, where it is not the value itself."""
    return getattr(windowing.aggregator, "present", None)


_Run = Callable[[Rows, int, list[int]], list[tuple[Any, ...]]]
"""With a place for the row that it is at."""


def _combining(windowing: Windowing) -> _Run:
    init, combine, present = windowing.aggregator.init, windowing.aggregator.combine, presenting(windowing)

    def run(rows: Rows, number: int, at: list[int]) -> list[tuple[Any, ...]]:
        value = None
        for at[0], row in enumerate(rows):  # noqa: B020
            made = init(row)
            value = made if value is None else combine(value, made)
        if value is None:  # nothing, as in a state
            return []
        return [(value if present is None else present(value),)]

    return run


def _reducing(windowing: Windowing) -> _Run:
    init, reduce, present = windowing.aggregator.init, windowing.aggregator.reduce, presenting(windowing)

    def run(rows: Rows, number: int, at: list[int]) -> list[tuple[Any, ...]]:
        value = init()
        for at[0], row in enumerate(rows):  # noqa: B020
            value = reduce(value, row)
        return [(value if present is None else present(value),)]

    return run


def _aggregating(windowing: Windowing) -> _Run:
    aggregator, width = windowing.aggregator, len(windowing.outputs.fields)

    def run(rows: Rows, number: int, at: list[int]) -> list[tuple[Any, ...]]:
        collector = ListCollector(width)
        value = aggregator.init(number, collector)
        for at[0], row in enumerate(rows):  # noqa: B020
            aggregator.aggregate(value, row, collector)
        aggregator.complete(value, collector)
        return collector.emitted

    return run


class Results:
    """What windows gave, with the rows of the columns that stand before it."""

    def __init__(self, windowing: Windowing, where: Where) -> None:
        self._call = window_call(windowing, where)
        self._outputs = arrow_schema(windowing.outputs)
        self._where = where
        self._values: list[tuple[Any, ...]] = []
        self.origins: list[int] = []
        """For each result, what `add` was told of its window."""

    def add(self, rows: Rows, number: int, origin: int) -> None:
        """Call the aggregator for one window."""
        given = self._call(rows, number)
        self._values += given
        self.origins += [origin] * len(given)

    def columns(self) -> Columns:
        """The output fields."""
        lists = list(zip(*self._values, strict=True)) or [()] * len(self._outputs)
        made = {
            field.name: made_column(self._where, list(values), field)
            for field, values in zip(self._outputs, lists, strict=True)
        }
        return Columns(made, len(self._values))


def made_column(where: Where, values: list[Any], field: pa.Field) -> Column:
    """Values of one output field, checked against its declared type."""
    try:
        return Column.made(values, field.type)
    except NotAccepted as error:
        hint = f" ({error.why})" if error.why else ""
        raise where.error(f"gave {misfit(error, field)}{hint}") from None
