"""Late tuples: tuples of a batch that arrived after all of their windows had closed, or that have no time."""

import pyarrow as pa
import pyarrow.compute as pc

from trident.compiler.states.update_types import RunLate, WindowBatch
from trident.compiler.windows.time_windows import on_time, watermark
from trident.plan.nodes import LateTuples
from trident.plan.states import state_traits


def late_tuples(node: LateTuples) -> RunLate:
    """Return a function that selects the late tuples of a batch."""
    config = state_traits(node.window).late_by(node.window, node.side or 0)
    assert config is not None
    assert config.timestampField is not None
    field = config.timestampField

    def late(table: pa.Table, batch: WindowBatch) -> pa.Table:
        if not table.num_rows:
            return table
        before = min(watermark(stored) for stored in batch.watermarks)
        return table.filter(pc.invert(on_time(config, table.column(field), before)))

    return late
