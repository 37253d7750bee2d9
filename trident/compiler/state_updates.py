"""The function of each update of a state: one row for each class of nodes, and for each form of `partitionPersist`.

The plan's own tables (`trident.plan.states`) cannot hold these functions, which are in packages that import the plan.
`tests/compiler/test_state_updates.py` fails if a row is missing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from trident.compiler.states.dead_letters import keep_letters
from trident.compiler.states.overlay import Stored
from trident.compiler.states.stateful import stateful_update
from trident.compiler.states.table_rows import last_of_key
from trident.compiler.states.update_types import RunJoin, RunLate, RunWindow, WindowBatch
from trident.compiler.states.updates import RunUpdate, Updated, reducer_update, updater_update
from trident.compiler.windows.combined_windows import combined_update
from trident.compiler.windows.count_windows import count_update
from trident.compiler.windows.duplicates import first_of_key
from trident.compiler.windows.gathered_windows import gathered_update
from trident.compiler.windows.interval_joins import interval_join
from trident.compiler.windows.late_tuples import late_tuples
from trident.compiler.windows.session_windows import session_update
from trident.compiler.windows.time_windows import watermark_update
from trident.compiler.windows.timers import timed_update
from trident.compiler.windows.window_joins import window_join
from trident.operations.column_updaters import LastOfKey
from trident.operations.first_of_key import FirstOfKey
from trident.operations.functions import Updating
from trident.operations.stateful import Stateful
from trident.operations.update_forms import UpdateForm
from trident.operations.windows import CountWindow, SessionWindow
from trident.plan import nodes
from trident.plan.dead_letters import keeper_of


def compile_state_update(step: nodes.StateUpdate) -> RunJoin:
    """Return a function that runs this update of a state over a batch.

    Its first argument holds the tuples of each source.
    """
    return UPDATES[type(step)](step)


def compile_late(step: nodes.LateTuples) -> RunLate:
    """Return a function that selects the tuples of a batch that are late for a window."""
    return late_tuples(step)


def _one_source(update: RunWindow) -> RunJoin:
    """Return the function of an update with one source in the form that takes the tuples of each source."""

    def run(tables: Sequence[pa.Table], stored: Stored, batch: WindowBatch) -> Updated:
        (table,) = tables
        return update(table, stored, batch)

    return run


def _of_txid(update: RunUpdate) -> RunWindow:
    """Return the function of an update that needs only the txid of a batch."""
    return lambda table, stored, batch: update(table, stored, batch.txid)


def _window(step: nodes.Window) -> RunWindow:
    if isinstance(step.windowing.config, CountWindow):
        return count_update(step)
    if isinstance(step.windowing.config, SessionWindow):
        return session_update(step)
    return combined_update(step) if step.windowing.panes else gathered_update(step)


def _updater(step: nodes.PartitionPersist) -> RunWindow:
    keeper = keeper_of(step)
    return _of_txid(updater_update(step)) if keeper is None else keep_letters(step, keeper)


FORMS: Mapping[type[UpdateForm], Callable[[nodes.PartitionPersist], RunWindow]] = {
    Updating: _updater,
    Stateful: lambda step: timed_update(step) if step.updating.timed else stateful_update(step),
    FirstOfKey: first_of_key,
    LastOfKey: last_of_key,
}
"""The function of each form of the update in a `partitionPersist`."""

UPDATES: Mapping[type[nodes.Node], Callable[[Any], RunJoin]] = {
    nodes.PersistentReduce: lambda step: _one_source(_of_txid(reducer_update(step))),
    nodes.PartitionPersist: lambda step: _one_source(FORMS[type(step.updating)](step)),
    nodes.Watermark: lambda step: _one_source(watermark_update(step)),
    nodes.Window: lambda step: _one_source(_window(step)),
    nodes.IntervalJoin: interval_join,
    nodes.WindowJoin: window_join,
}
"""The function of each update of a state."""
