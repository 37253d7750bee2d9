"""Late tuples: tuples of a batch that came after every window that could hold them had closed, or that have no time."""

import pyarrow as pa
import pyarrow.compute as pc

from trident.compiler.states.update_types import RunLate, WindowBatch
from trident.compiler.windows.time import on_time, watermark
from trident.operations.windows import Timing
from trident.plan.nodes import LateTuples
from trident.plan.window_inputs import config_of


def late_tuples(node: LateTuples) -> RunLate:
    """Return a function that selects the late tuples of a batch."""
    config = config_of(node)
    assert isinstance(config, Timing)
    assert config.timestampField is not None
    field = config.timestampField

    def late(table: pa.Table, batch: WindowBatch) -> pa.Table:
        if not table.num_rows:
            return table
        before = min(watermark(stored) for stored in batch.watermarks)
        return table.filter(pc.invert(on_time(config, table.column(field), before)))

    return late
