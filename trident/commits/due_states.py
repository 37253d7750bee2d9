"""The states of a group that need a batch even without tuples, and the time from which they need it.

None of this is stored. An update returns when its state is due next; otherwise the state itself is queried. After a
start nothing is known, which counts as due: so the first batch of a run may have no tuples, and its updates find the
due keys.
"""

import math
from collections.abc import Mapping

from trident.base.errors import SnapshotMovedError, StateRecoveringError
from trident.compiler.program import Group
from trident.compiler.states.updates import InState, NextDue
from trident.log.protocol import Birth
from trident.plan.nodes import StateUpdate
from trident.plan.states import state_traits
from trident_state.store import Store, Timed


class DueStates:
    """The due times of one group. The commit thread records them, and the plan thread reads them."""

    def __init__(self, group: Group, stores: Mapping[str, Store], births: Mapping[str, Birth]) -> None:
        self._stores, self._births = stores, births
        self._wakes = frozenset(step.state.name for step in group.states if state_traits(step).wakes(step))
        self._noted: dict[str, tuple[int, NextDue]] = {}
        """For each state, the batch that recorded its due time, and the time. An entry is replaced as a whole."""

    def note(self, step: StateUpdate, txid: int, due: NextDue) -> None:
        """Record when a state is due after batch `txid`."""
        if step.state.name in self._wakes:
            self._noted[step.state.name] = txid, due

    def first(self, txid: int, time: int) -> float:
        """Return the earliest time at which a state needs a batch after `txid`, in microseconds since 1970.

        Infinity means that no state needs one; minus infinity means that the time is not known, as after a start. The
        time may be too early, but is at or before `time` only if a state needs a batch at `time`. Raises the errors of
        a store.
        """
        return min((self._of(state, txid, time) for state in self._wakes), default=math.inf)

    def _of(self, state: str, txid: int, time: int) -> float:
        noted, due = self._noted.get(state, (None, None))
        if noted != txid:  # a state born since then without initial content is empty
            birth = self._births[state]
            return math.inf if birth.txid >= txid and not birth.filled else -math.inf
        if isinstance(due, InState):
            store = self._stores[state]
            assert isinstance(store, Timed)
            try:
                first = store.first_due(txid, due.until(time))
            except (SnapshotMovedError, StateRecoveringError):  # the update of a batch finds the due keys without it
                return -math.inf
            due = None if first is None else due.at(first)
        return math.inf if due is None else due
