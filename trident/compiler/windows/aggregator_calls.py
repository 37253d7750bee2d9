"""Calls of a window's aggregator over the window's tuples. All kinds of aggregators are called in the same way."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa

from trident.base.change_kinds import CHANGE
from trident.base.errors import FailedException
from trident.base.generator_checks import check_ran
from trident.base.spark_types import arrow_schema
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.function_errors import Where
from trident.compiler.columns.operation_calls import ListCollector, output_column, output_table
from trident.compiler.states.shapes import nullable
from trident.operations.bundles import bundle_of
from trident.operations.checked_aggregators import SeparateValues, checked_combine, checked_init, reduce_value
from trident.operations.window_aggregators import Windowing
from trident.plan.nodes import Window, WindowPanes

Rows = Sequence[Any]
"""The tuples of one window, in order."""

CallWindow = Callable[[Rows, int], list[tuple[Any, ...]]]
"""A function from a window's tuples and number to the results of the aggregator."""


def where_of(node: Window | WindowPanes) -> Where:
    """Return the context for errors of a window's aggregator: the step, the user's function and its input fields."""
    return Where(node.step, node.windowing.site, node.inputs)


def row_schema(node: Window) -> pa.Schema:
    """Return the fields of a window's results, without the kind of change that early results have."""
    schema = nullable(arrow_schema(node.outputs))
    return schema.remove(schema.get_field_index(CHANGE)) if node.windowing.early else schema


def window_call(windowing: Windowing, where: Where) -> CallWindow:
    """Return a window's aggregator as a function of one window. Its errors show the tuple."""
    run = {"combiner": _combining, "reducer": _reducing, "aggregator": _aggregating}[windowing.kind](windowing)

    def call(rows: Rows, number: int) -> list[tuple[Any, ...]]:
        at = [0]
        try:  # not `Calling`: windows may hold few tuples, and entering a context costs more than a few calls
            return run(rows, number, at)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise where.raised(cause, list(zip(*rows, strict=True)), at[0]) from cause

    return call


def presenting(windowing: Windowing) -> Callable[[Any], Any] | None:
    """Return the aggregator's `present`, which turns values into results; None if a value is itself the result."""
    return getattr(windowing.aggregator, "present", None)


def result_columns(windowing: Windowing, where: Where, values: list[Any], fields: pa.Schema) -> dict[str, Column]:
    """Return the output fields of windows from their accumulators, one per window. `fields` has the fields' types."""
    present, names = presenting(windowing), windowing.outputs.names
    shown = values if present is None else [present(value) for value in values]
    lists = [shown] if bundle_of(windowing.aggregation) is None else list(zip(*shown, strict=True)) or [()] * len(names)
    return {name: output_column(where, list(own), fields.field(name)) for name, own in zip(names, lists, strict=True)}


_Run = Callable[[Rows, int, list[int]], list[tuple[Any, ...]]]
"""A `CallWindow` with an additional argument: a list in whose only item it sets the current row."""


def _combining(windowing: Windowing) -> _Run:
    init, combine = checked_init(windowing.aggregator), checked_combine(windowing.aggregator)
    present = presenting(windowing)
    several = bundle_of(windowing.aggregation) is not None

    def run(rows: Rows, number: int, at: list[int]) -> list[tuple[Any, ...]]:
        value = None
        for at[0], row in enumerate(rows):  # noqa: B020
            delta = init(row)
            value = delta if value is None else combine(value, delta)
        if value is None:  # null means no value, as in a state
            return []
        shown = value if present is None else present(value)
        return [tuple(shown)] if several else [(shown,)]

    return run


def _reducing(windowing: Windowing) -> _Run:
    init, reduce = SeparateValues(windowing.aggregator.init), partial(reduce_value, windowing.aggregator)
    present = presenting(windowing)

    def run(rows: Rows, number: int, at: list[int]) -> list[tuple[Any, ...]]:
        value = init()
        for at[0], row in enumerate(rows):  # noqa: B020
            value = reduce(value, row)
        return [(value if present is None else present(value),)]

    return run


def _aggregating(windowing: Windowing) -> _Run:
    aggregator, names = windowing.aggregator, windowing.outputs.names
    init = SeparateValues(aggregator.init)

    def run(rows: Rows, number: int, at: list[int]) -> list[tuple[Any, ...]]:
        collector = ListCollector(names)
        value = init(number, collector)
        for at[0], row in enumerate(rows):  # noqa: B020
            aggregator.aggregate(value, row, collector)
        check_ran(aggregator.complete(value, collector), "write collector.emit([...])")
        return collector.close()

    return run


class Results:
    """The results of windows, each with the window from which it came."""

    def __init__(self, windowing: Windowing, where: Where) -> None:
        self._call = window_call(windowing, where)
        self._outputs = arrow_schema(windowing.outputs)
        self._where = where
        self._values: list[tuple[Any, ...]] = []
        self.origins: list[int] = []
        """For each result the `origin` of its window, as passed to `add`."""

    def add(self, rows: Rows, number: int, origin: int) -> None:
        """Call the aggregator for one window."""
        results = self._call(rows, number)
        self._values += results
        self.origins += [origin] * len(results)

    def columns(self) -> Columns:
        """Return the output fields."""
        return output_table(self._where, self._values, self._outputs)
