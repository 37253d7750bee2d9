"""The choice of the function that runs an update of a state in the commit turn."""

from collections.abc import Sequence

import pyarrow as pa

from trident.compiler.states.latest import last_of_key
from trident.compiler.states.letters import keep_letters, keeper_of
from trident.compiler.states.overlay import Stored
from trident.compiler.states.stateful import stateful_update
from trident.compiler.states.update_types import RunJoin, RunLate, RunWindow, WindowBatch
from trident.compiler.states.updates import Updated, compile_update
from trident.compiler.windows.combined import combined_update
from trident.compiler.windows.count import count_update
from trident.compiler.windows.duplicates import first_of_key
from trident.compiler.windows.gathered import gathered_update
from trident.compiler.windows.interval_joins import interval_join
from trident.compiler.windows.late_tuples import late_tuples
from trident.compiler.windows.sessions import session_update
from trident.compiler.windows.time import watermark_update
from trident.operations.column_updaters import FirstOfKey, LastOfKey
from trident.operations.stateful import Stateful
from trident.operations.windows import CountWindow, SessionWindow
from trident.plan import nodes


def compile_state_update(step: nodes.StateUpdate) -> RunJoin:
    """Return a function that runs this update of a state over a batch.

    Its first argument holds the tuples of each source.
    """
    if isinstance(step, nodes.IntervalJoin):
        return interval_join(step)
    update = _of_one_source(step)

    def run(tables: Sequence[pa.Table], stored: Stored, batch: WindowBatch) -> Updated:
        (table,) = tables
        return update(table, stored, batch)

    return run


def _of_one_source(step: nodes.PersistentReduce | nodes.PartitionPersist | nodes.WindowUpdate) -> RunWindow:
    if isinstance(step, nodes.WindowUpdate):
        return compile_window(step)
    if isinstance(step, nodes.PartitionPersist):
        if isinstance(step.updating, FirstOfKey):
            return first_of_key(step)
        if isinstance(step.updating, LastOfKey):
            return last_of_key(step)
        if isinstance(step.updating, Stateful):
            return stateful_update(step)
        if (keeper := keeper_of(step)) is not None:
            return keep_letters(step, keeper)
    update = compile_update(step)

    def run(table: pa.Table, stored: Stored, batch: WindowBatch) -> Updated:
        return update(table, stored, batch.txid)

    return run


def compile_window(step: nodes.WindowUpdate) -> RunWindow:
    """Return a function that runs one step of a window over a batch."""
    if isinstance(step, nodes.Watermark):
        return watermark_update(step)
    if isinstance(step.windowing.config, CountWindow):
        return count_update(step)
    if isinstance(step.windowing.config, SessionWindow):
        return session_update(step)
    return combined_update(step) if step.windowing.panes else gathered_update(step)


def compile_late(step: nodes.LateTuples) -> RunLate:
    """Return a function that selects the tuples of a batch that are late for a window."""
    return late_tuples(step)
