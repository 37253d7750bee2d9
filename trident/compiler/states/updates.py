"""State updates: what a reducer or a user's updater makes of a state, computed once, before any of it is written.

The tuples are frozen and in a fixed order, the state is as the batch before left it, and the result, each key once with
its new value, is frozen in its turn. So it does not matter how often this runs: what is written is written once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from trident.base.errors import FailedException, StateError
from trident.base.types import arrow_schema, select
from trident.base.values import NotAccepted, to_python, type_name
from trident.compiler.columns.calls import ListCollector, misfit
from trident.compiler.columns.columns import Column, Columns
from trident.compiler.columns.failures import Where, short
from trident.compiler.columns.keys import KeyIndex
from trident.compiler.states.overlay import MapOverlay, Overlay, Stored, ValueOverlay
from trident.compiler.states.shapes import shape_of
from trident.operations.tuples import tuple_type
from trident.plan.nodes import PartitionPersist, PersistentReduce


@dataclass(frozen=True, slots=True)
class Updated:
    """What an update came to: the key fields and the new value (null: removed), each key once; and what was emitted."""

    puts: pa.Table
    emitted: pa.Table | None


RunUpdate = Callable[[pa.Table, Stored, int], Updated]
"""From the tuples that enter, the state before the batch, and the batch's txid."""


def compile_update(step: PersistentReduce | PartitionPersist) -> RunUpdate:
    """A function that runs the update of one step over a batch."""
    return _reducing(step) if isinstance(step, PersistentReduce) else _updating(step)


# --- persistentAggregate with a reducer ---------------------------------------------------------------------------


def _reducing(step: PersistentReduce) -> RunUpdate:
    came = arrow_schema(select(step.source.schema, [*step.group, *(n for n in step.inputs if n not in step.group)]))
    shape, output = shape_of(step), step.reduction.output
    where = Where(step.step, step.reduction.site, step.inputs)
    leaving = shape.keys.append(pa.field(output, shape.value))
    maker, reducer = tuple_type(step.inputs), step.reduction.aggregator

    def update(table: pa.Table, stored: Stored, txid: int) -> Updated:
        tuples = entering(table, came)
        index = KeyIndex(shape.keys.types)
        places = index.places([tuples[name] for name in step.group], tuples.rows)
        if not tuples.rows:
            return Updated(leaving.empty_table(), None)
        keys = Columns(dict(zip(step.group, index.columns(), strict=True)) if step.group else {}, len(index))
        values = to_python(stored.read(keys.table(shape.keys)))
        lists = tuples.lists(step.inputs)
        rows = map(maker, zip(*lists, strict=True)) if lists else (maker(()) for _ in places)
        row = 0
        try:
            values = [reducer.init() if value is None else value for value in values]
            for row, (place, each) in enumerate(zip(places, rows, strict=True)):  # noqa: B007
                values[place] = reducer.reduce(values[place], each)
        except FailedException:
            raise
        except (Exception, SystemExit) as cause:
            raise where.raised(cause, lists, row) from cause
        return Updated(keys.plus({output: _value(where, values, shape.value)}).table(leaving), None)

    return update


def _value(where: Where, values: list[Any], kind: pa.DataType) -> Column:
    try:
        return Column.made(values, kind)
    except NotAccepted as error:
        hint = f" ({error.why})" if error.why else ""
        came = f"{short(error.value)} ({type(error.value).__name__})"
        raise where.error(f"gave {came}, the state holds {type_name(kind)}{hint}") from None


# --- partitionPersist ---------------------------------------------------------------------------------------------


def _updating(step: PartitionPersist) -> RunUpdate:
    came = arrow_schema(select(step.source.schema, step.inputs))
    outputs, shape = arrow_schema(step.outputs), shape_of(step)
    where = Where(step.step, step.updating.site, step.inputs)
    leaving = pa.schema([*shape.keys, pa.field(step.schema.names[-1], shape.value)])
    maker = tuple_type(step.inputs)

    def update(table: pa.Table, stored: Stored, txid: int) -> Updated:
        tuples = entering(table, came)
        lists = tuples.lists(step.inputs)
        rows = list(map(maker, zip(*lists, strict=True))) if lists else [maker(()) for _ in range(tuples.rows)]
        overlay = Overlay(step.state.name, shape, where, stored)
        collector = ListCollector(len(outputs))
        if rows:  # as in Trident, an updater is not called for nothing
            state = MapOverlay(overlay, shape.keys) if len(shape.keys) else ValueOverlay(overlay)
            _called(where, overlay, lambda: step.updating.call(state, rows, collector), state, txid)
        changes = overlay.changes()
        puts = pa.Table.from_arrays([changes[name].array() for name in changes.names], schema=leaving)
        return Updated(puts, _emissions(where, collector.emitted, outputs))

    return update


def _called(
    where: Where,
    overlay: Overlay,
    call: Callable[[], object],
    state: MapOverlay | ValueOverlay,
    txid: int,
) -> None:
    """Run the user's code. A store that could not be read fails the batch, whatever the code made of it."""
    state.beginCommit(txid)
    try:
        call()
    except (FailedException, StateError):
        if overlay.failure is None:
            raise
    except (Exception, SystemExit) as cause:
        if overlay.failure is None:
            raise where.error(f"raised {type(cause).__name__}: {cause}", cause) from cause
    finally:
        state.commit(txid)
    if overlay.failure is not None:
        raise overlay.failure


def _emissions(where: Where, emitted: list[tuple[Any, ...]], outputs: pa.Schema) -> pa.Table:
    columns = {}
    for at, field in enumerate(outputs):
        try:
            columns[field.name] = Column.made([values[at] for values in emitted], field.type)
        except NotAccepted as error:
            hint = f" ({error.why})" if error.why else ""
            raise where.error(f"emitted {misfit(error, field)}{hint}") from None
    return Columns(columns, len(emitted)).table(outputs)


def entering(table: pa.Table, fields: pa.Schema) -> Columns:
    """The fields that an update reads of its tuples, by name: of these more may have been carried."""
    if not len(fields):
        return Columns({}, table.num_rows)
    return Columns.of(table.select(fields.names), fields)
