"""The update of `toTable`, which keeps the last tuple of each key in a state."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.changes import adding
from trident.base.types import arrow_schema
from trident.base.values import conform
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import nullable, shape_of
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.operations.column_updaters import LastOfKey
from trident.plan.nodes import PartitionPersist
from trident_state.binary import one_chunk
from trident_state.keys import encode_keys


def last_of_key(node: PartitionPersist) -> RunWindow:
    """Return the function that puts the last tuple of each key in a batch into the state."""
    assert isinstance(node.updating, LastOfKey)
    names, change, shape = node.updating.values, node.updating.change, shape_of(node)
    consolidated = node.updating.consolidated
    puts = shape.keys.append(pa.field(node.schema.names[-1], shape.value))
    leaving = nullable(arrow_schema(node.outputs))

    def update(table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        del stored, batch
        tuples = conform(table.select(leaving.names), leaving)
        if change is not None and consolidated:
            tuples = _added_last(tuples, change)
        tuples = tuples.take(pa.array(last_rows(tuples.select(shape.keys.names))))
        fields = [one_chunk(tuples.column(name)) for name in names]
        value = pa.StructArray.from_arrays(fields, fields=list(shape.value), mask=_gone(tuples, change))
        keys = [tuples.column(name) for name in shape.keys.names]
        return Updated(pa.Table.from_arrays([*keys, value], schema=puts), tuples)

    return update


def _gone(tuples: pa.Table, change: str | None) -> pa.Array | None:
    """Return which tuples take the rows of their keys away; None if all of them are rows."""
    if change is None:
        return None
    return pc.invert(adding(one_chunk(tuples.column(change))))


def _added_last(tuples: pa.Table, change: str) -> pa.Table:
    """Return the tuples, those that take rows away before those that add rows, otherwise in their order."""
    adds = adding(one_chunk(tuples.column(change))).to_numpy(zero_copy_only=False)
    return tuples.take(pa.array(np.argsort(adds, kind="stable")))


def last_rows(keys: pa.Table) -> "np.typing.NDArray[np.int64]":
    """Return the row of each key's last tuple, in ascending order."""
    encoded = pc.dictionary_encode(one_chunk(encode_keys(keys)))
    last = np.zeros(len(encoded.dictionary), np.int64)
    last[encoded.indices.to_numpy()] = np.arange(keys.num_rows)  # of several rows of a key the last one stays
    return np.sort(last)
