"""The update of `toTable`, which keeps the last tuple of each key in a state."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.change_kinds import adding
from trident.base.spark_order import exceeds, ranked
from trident.base.spark_types import arrow_schema
from trident.base.value_conversion import conform
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.operations.column_updaters import LastOfKey
from trident.plan.nodes import PartitionPersist
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys


def last_of_key(node: PartitionPersist) -> RunWindow:
    """Return the function that puts the last tuple of each key in a batch into the state."""
    assert isinstance(node.updating, LastOfKey)
    names, change, shape = node.updating.values, node.updating.change, shape_of(node)
    consolidated, order = node.updating.consolidated, node.updating.order
    puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
    leaving = nullable(arrow_schema(node.outputs))

    def update(table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        del batch
        tuples = conform(table.select(leaving.names), leaving)
        if change is not None and consolidated:
            tuples = _added_last(tuples, change)
        if order is None:
            tuples = tuples.take(pa.array(last_rows(tuples.select(shape.keys.names))))
        else:
            tuples = _newest(tuples, shape.keys.names, order, stored)
        fields = [one_chunk(tuples.column(name)) for name in names]
        value = pa.StructArray.from_arrays(fields, fields=list(shape.value), mask=_gone(tuples, change))
        keys = [tuples.column(name) for name in shape.keys.names]
        return Updated(pa.Table.from_arrays([*keys, value], schema=puts), tuples)

    return update


def _gone(tuples: pa.Table, change: str | None) -> pa.Array | None:
    """Return which tuples remove the rows of their keys; None if none does."""
    if change is None:
        return None
    return pc.invert(adding(one_chunk(tuples.column(change))))


def _added_last(tuples: pa.Table, change: str) -> pa.Table:
    """Return the tuples: first those that remove rows, then those that add rows, otherwise in their order."""
    adds = adding(one_chunk(tuples.column(change))).to_numpy(zero_copy_only=False)
    return tuples.take(pa.array(np.argsort(adds, kind="stable")))


def _newest(tuples: pa.Table, keys: list[str], order: str, stored: Stored) -> pa.Table:
    """Return each key's greatest tuple by a field, unless the stored row is greater.

    Among equal ones the last one wins.
    """
    by = ranked((one_chunk(tuples.column(order)), "ascending"), nulls_least=True)
    tuples = tuples.take(pa.array(last_rows(tuples.select(keys), by)))
    if not tuples.num_rows:
        return tuples
    before = pc.struct_field(stored.read(tuples.select(keys)), order)
    newer = one_chunk(tuples.column(order))
    stays = pc.or_(exceeds(before, newer).fill_null(False), pc.and_(before.is_valid(), newer.is_null()))
    return tuples.filter(pc.invert(stays))


def last_rows(keys: pa.Table, order: "np.typing.NDArray[np.int64] | None" = None) -> "np.typing.NDArray[np.int64]":
    """Return the row of each key's last tuple, in ascending order. `order` has the rows in another order."""
    encoded = pc.dictionary_encode(one_chunk(encode_keys(keys)))
    last = np.zeros(len(encoded.dictionary), np.int64)
    rows = np.arange(keys.num_rows) if order is None else order
    last[encoded.indices.to_numpy()[rows]] = rows  # if a key has several rows, the last one is kept
    return np.sort(last)
