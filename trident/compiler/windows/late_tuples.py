"""Late tuples: those of a batch that came too late for every window that could hold them, or that have no time."""

import pyarrow as pa
import pyarrow.compute as pc

from trident.compiler.windows.time import Lattice, held_by_any, watermark
from trident.compiler.windows.tuple_lists import Ids, microseconds, one
from trident.compiler.windows.types import RunLate, WindowBatch
from trident.operations.windows import SessionWindow, TimeWindow
from trident.plan.nodes import LateTuples


def late_tuples(node: LateTuples) -> RunLate:
    """Return a function that selects from a batch's tuples the late ones."""
    config = node.window.windowing.config
    assert isinstance(config, TimeWindow | SessionWindow)
    assert config.timestampField is not None
    field = config.timestampField

    def late(table: pa.Table, batch: WindowBatch) -> pa.Table:
        assert batch.watermark is not None
        if not table.num_rows:
            return table
        times = one(table.column(field))
        micros = microseconds(times.fill_null(0))
        too_late = (last_end(config, micros) <= watermark(batch.watermark)) | ~held_by_any(config, micros)
        return table.filter(pc.or_(times.is_null(), pa.array(too_late)))

    return late


def last_end(config: TimeWindow | SessionWindow, times: Ids) -> Ids:
    """Return the end of the last window that a tuple of this time can be in."""
    if isinstance(config, SessionWindow):
        return times + config.gap
    return Lattice.of(config).last_end(times)
