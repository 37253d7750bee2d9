"""The tuples of a batch that came too late for every window of theirs, or that have no time."""

import pyarrow as pa
import pyarrow.compute as pc

from trident.compiler.windows.time import Lattice, held_by_any, watermark
from trident.compiler.windows.tuple_lists import Ids, numbers, one
from trident.compiler.windows.types import RunLate, WindowTurn
from trident.operations.windows import SessionWindow, TimeWindow
from trident.plan.nodes import LateTuples


def late_tuples(node: LateTuples) -> RunLate:
    """From a batch's tuples to those that are late."""
    config = node.window.windowing.config
    assert isinstance(config, TimeWindow | SessionWindow)
    assert config.timestampField is not None
    field = config.timestampField

    def late(table: pa.Table, turn: WindowTurn) -> pa.Table:
        assert turn.watermark is not None
        if not table.num_rows:
            return table
        times = one(table.column(field))
        whole = numbers(times.fill_null(0))
        gone = (last_end(config, whole) <= watermark(turn.watermark)) | ~held_by_any(config, whole)
        return table.filter(pc.or_(times.is_null(), pa.array(gone)))

    return late


def last_end(config: TimeWindow | SessionWindow, times: Ids) -> Ids:
    """When the last window ends in which a tuple of this time can be."""
    if isinstance(config, SessionWindow):
        return times + config.gap
    return Lattice.of(config).last_end(times)
