"""The update of `KeepLetters` over whole columns, without an object for each dead letter."""

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.spark_types import arrow_schema, select
from trident.base.value_conversion import conform
from trident.compiler.states.overlay import Stored
from trident.compiler.states.shapes import shape_of
from trident.compiler.states.table_rows import last_rows
from trident.compiler.states.update_types import RunWindow, WindowBatch
from trident.compiler.states.updates import Updated
from trident.operations.dead_letters import LETTER, KeepLetters
from trident.plan.nodes import PartitionPersist
from trident_state.binary_arrays import one_chunk

_ID, _STEP = LETTER.names.index("id"), LETTER.names.index("step")


def keep_letters(step: PartitionPersist, keeper: KeepLetters) -> RunWindow:
    """Return the function that stores a batch's letters with the same result as `KeepLetters.updateState`."""
    entering, shape = arrow_schema(select(step.source.schema, step.inputs)), shape_of(step)
    puts = shape.keys.append(pa.field(step.schema.names[-1], shape.value))
    emitted = arrow_schema(step.outputs).empty_table()

    def update(table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        del batch
        letters = conform(table.select(entering.names), entering)
        if not letters.num_rows:
            return Updated(puts.empty_table(), emitted)
        is_new = pc.is_valid(letters.column(_STEP))
        new, back = letters.filter(is_new), letters.filter(pc.invert(is_new))
        new = new.take(pa.array(last_rows(new.select([_ID]))))
        ids = {id for page in stored.scan() for id in page.column(0).to_pylist()}
        removed = set(back.column(_ID).to_pylist())
        ids = (ids | set(new.column(_ID).to_pylist())) - removed
        evicted = sorted(ids)[: max(0, len(ids) - keeper.most)]
        removed.update(evicted)
        gone = pa.array(sorted(removed), shape.keys.types[0])
        new = new.filter(pc.invert(pc.is_in(new.column(_ID), gone)))
        fields = [one_chunk(column) for at, column in enumerate(new.columns) if at != _ID]
        values = pa.StructArray.from_arrays(fields, fields=list(shape.value))
        keys = pa.concat_arrays([one_chunk(new.column(_ID)), gone])
        values = pa.concat_arrays([values, pa.nulls(len(gone), shape.value)])
        return Updated(pa.Table.from_arrays([keys, values], schema=puts), emitted, len(evicted))

    return update
