"""The queries of states in commit turns: as of which batch each reads its state, and who asks."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypeVar

import pyarrow as pa

from trident.base.errors import StateRecoveringError
from trident.commits.executors import Executors
from trident.commits.user_code import UserCode
from trident.compiler.program import Group, Output
from trident.frozen.results import FrozenFiles
from trident.log.protocol import Birth
from trident.plan.nodes import CommittedQuery, StateQuery, StateReader, sources_of, walk
from trident_spouts.executor import Emission
from trident_state.store import Store

T = TypeVar("T")


@dataclass
class StateQueries:
    """The queries of one group. Only the commit thread calls it.

    `stores` are those of the group's own states, `births` the births of these states; `heal` brings one of them up to
    a txid. Other states are another topology's, which nobody heals here.
    """

    group: Group
    stores: Mapping[str, Store]
    births: Mapping[str, Birth]
    code: UserCode
    executors: Executors
    heal: Callable[[str, int], None]

    def ask(self, step: StateQuery, frozen: FrozenFiles, txid: int) -> Emission | None:
        """Let the executors query a state for the tuples in frozen files; return None if the driver must query it."""
        as_of = self._as_of(step, txid)
        return self._healed(step, as_of, partial(self.executors.ask, step, frozen, as_of))

    def answer(self, output: Output, table: pa.Table, txid: int) -> pa.Table:
        """Answer a query of batch `txid`; `_as_of` says which batch of the state it sees.

        A state that was born after this batch is empty, as it was at its birth.
        """
        assert isinstance(output.step, StateReader)
        as_of = self._as_of(output.step, txid)
        return self._healed(output.step, as_of, partial(self.code.answer, output.step, table, as_of))

    def answer_committed(self, output: Output, table: pa.Table, txid: int) -> pa.Table:
        """Answer a query of committed values, for which the log has no frozen answers yet."""
        assert isinstance(output.step, CommittedQuery)
        # A state of this very group is committed up to the batch before. It is read like that and not through the gate:
        # only here a state that was born after this batch is empty, and one that is behind is healed.
        if output.step.updated.state.name in self.stores:
            return self.answer(output, table, txid)
        return self.code.answer_committed(output.step, table, txid)

    def _healed(self, step: StateReader, as_of: int, work: Callable[[], T]) -> T:
        """Call `work`, which reads the state of a query. If the state is behind, heal it and call `work` again."""
        state = step.updated.state.name
        try:
            return work()
        except StateRecoveringError:
            if state not in self.stores:  # the state is another topology's
                raise
            self.heal(state, as_of)
            return work()

    def _as_of(self, step: StateReader, txid: int) -> int:
        """Return the txid as of which a query of batch `txid` reads its state: the previous batch's, or `txid` itself.

        `txid` is for a query whose tuples come from the update of the same state. Any other query sees the state as it
        was before the batch, even if the state holds the batch already, because an earlier stage has written it
        (docs/decisions/0046).
        """
        state = step.updated.state.name
        as_of = txid if step in self._behind_update else txid - 1
        # Before its birth a state has nothing to read, and a read as of an earlier txid would wait for ever (guard
        # "a state born after a batch, asked").
        return max(as_of, self.births[state].txid) if state in self.births else as_of

    @cached_property
    def _behind_update(self) -> frozenset[StateReader]:
        """The queries whose tuples come from the update of the state that they read."""
        queries = (output.step for stage in self.group.stages for output in stage.outputs)
        return frozenset(
            step for step in queries if isinstance(step, StateQuery) and step.updated in walk(*sources_of(step))
        )
