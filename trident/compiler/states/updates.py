"""State updates: the changes by a reducer or a user's updater. They are computed before any change is written.

The tuples are frozen and in a fixed order, and the state is as of the previous batch. The result, each key once with
its new value, is frozen too. So it does not matter how often an update runs: only the frozen result is written.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.errors import FailedException, StateError
from trident.base.generator_checks import check_ran
from trident.base.short_texts import raised
from trident.base.spark_types import arrow_schema, select
from trident.base.value_conversion import NotAccepted, to_python, type_name
from trident.compiler.columns.columns import Column, Columns, made_tuples
from trident.compiler.columns.function_errors import Where, reason, typed
from trident.compiler.columns.key_numbers import KeyNumbers
from trident.compiler.columns.operation_calls import ListCollector, output_table
from trident.compiler.states.overlay import MapOverlay, Overlay, Stored, ValueOverlay
from trident.compiler.states.shapes import shape_of
from trident.operations.checked_aggregators import SeparateValues, reduce_value
from trident.operations.functions import Updating
from trident.operations.tuples import tuple_type
from trident.plan.nodes import PartitionPersist, PersistentReduce


@dataclass(frozen=True, slots=True)
class InState:
    """A time that the state itself keeps: the due time of its first key, plus `offset`, but at least `least`."""

    offset: int = 0
    least: int = 0

    def at(self, due: int) -> int:
        """Return the batch time at which a key with the stored due time `due` is due."""
        return max(due + self.offset, self.least)

    def until(self, time: int) -> int:
        """Return the greatest due time in the state at which a key is due at a batch time."""
        return time - self.offset


NextDue = int | None | InState
"""The batch time from which a state needs a batch even if no tuple comes, in microseconds since 1970.

None: it needs none.
"""


@dataclass(frozen=True, slots=True)
class Updated:
    """The result of an update.

    `puts` are the key fields and the new value (null: the key is removed), each key once. `emitted` are the tuples that
    the update emits; None if its step emits none. `dropped` is the number of rows that came too late for a window, or
    of dead letters for which a state has no room.
    `due` is for steps that may need a batch when no tuple comes (`StateTraits.wakes`).
    """

    puts: pa.Table
    emitted: pa.Table | None
    dropped: int = 0
    due: NextDue = None


RunUpdate = Callable[[pa.Table, Stored, int], Updated]
"""A function that runs an update. Its arguments are the input tuples, the state before the batch, and the txid."""


# --- persistentAggregate with a reducer ---------------------------------------------------------------------------


def reducer_update(step: PersistentReduce) -> RunUpdate:
    """Return the function that folds a batch's tuples onto the stored values."""
    fields = arrow_schema(select(step.source.schema, [*step.group, *(n for n in step.inputs if n not in step.group)]))
    shape, output = shape_of(step), step.reduction.output
    where = Where(step.step, step.reduction.site, step.inputs)
    leaving = shape.keys.append(pa.field(output, shape.value))
    maker, reducer = tuple_type(step.inputs), step.reduction.aggregator
    init = SeparateValues(reducer.init)

    def update(table: pa.Table, stored: Stored, txid: int) -> Updated:
        tuples = entering(table, fields)
        index = KeyNumbers(shape.keys.types)
        numbers = index.numbers([tuples[name] for name in step.group], tuples.rows)
        if not tuples.rows:
            return Updated(leaving.empty_table(), None)
        keys = index.named(step.group)
        values = to_python(stored.read(keys.table(shape.keys)))
        lists = tuples.lists(step.inputs)
        rows = made_tuples(maker, lists, tuples.rows)
        row = 0
        with where.calling_rows(lists, lambda: row):
            values = [init() if value is None else value for value in values]
            for row, (number, inputs) in enumerate(zip(numbers, rows, strict=True)):  # noqa: B007
                values[number] = reduce_value(reducer, values[number], inputs)
        return Updated(keys.plus({output: _value(where, values, shape.value)}).table(leaving), None)

    return update


def _value(where: Where, values: list[Any], kind: pa.DataType) -> Column:
    try:
        return Column.made(values, kind)
    except NotAccepted as error:
        raise where.error(
            f"returned {typed(error.value)}, but the state has values of type {type_name(kind)}{reason(error)}"
        ) from None


# --- partitionPersist ---------------------------------------------------------------------------------------------


def updater_update(step: PartitionPersist) -> RunUpdate:
    """Return the function that calls a user's updater over a batch."""
    fields = arrow_schema(select(step.source.schema, step.inputs))
    outputs, shape = arrow_schema(step.outputs), shape_of(step)
    updating = step.updating
    assert isinstance(updating, Updating)
    where = Where(step.step, updating.site, step.inputs)
    leaving = pa.schema([*shape.keys, pa.field(step.schema.names[-1], shape.value)])
    maker = tuple_type(step.inputs)

    def update(table: pa.Table, stored: Stored, txid: int) -> Updated:
        tuples = entering(table, fields)
        rows = list(made_tuples(maker, tuples.lists(step.inputs), tuples.rows))
        overlay = Overlay(step.state.name, shape, where, stored)
        collector = ListCollector(outputs.names)
        if rows:  # as in Trident, an updater is not called without tuples
            state = MapOverlay(overlay, shape.keys) if len(shape.keys) else ValueOverlay(overlay)
            _called(where, overlay, lambda: updating.call(state, rows, collector), state, txid)
        changes = overlay.changes()
        puts = pa.Table.from_arrays([changes[name].array() for name in changes.names], schema=leaving)
        return Updated(puts, output_table(where, collector.close(), outputs, "emitted").table(outputs))

    return update


def _called(
    where: Where,
    overlay: Overlay,
    call: Callable[[], object],
    state: MapOverlay | ValueOverlay,
    txid: int,
) -> None:
    """Call the user's updater. If a read of the store failed, raise that error, even if the updater swallowed it."""
    state.beginCommit(txid)
    try:
        check_ran(call(), "change the state in the function itself, and emit with collector.emit([...])")
    except (FailedException, StateError):
        if overlay.failure is None:
            raise
    except (Exception, SystemExit) as cause:
        if overlay.failure is None:
            raise where.error(raised(cause), cause) from cause
    finally:
        state.commit(txid)
    if overlay.failure is not None:
        raise overlay.failure


def entering(table: pa.Table, fields: pa.Schema) -> Columns:
    """Return the input tuples of an update, with only the fields that it reads.

    The table may have more fields: a stage can carry fields that only another step reads.
    """
    if not len(fields):
        return Columns({}, table.num_rows)
    return Columns.of(table.select(fields.names), fields)
