"""The queries of states in commit turns, and the txid as of which each query reads its state."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from trident.base.cached_property import cached_property
from trident.commits.carrier import Tuples
from trident.commits.carriers import Carriers
from trident.commits.store_writes import StoreWrites
from trident.commits.user_code import UserCode
from trident.compiler.program import Group
from trident.frozen.results import Result
from trident.log.protocol import Birth
from trident.operations.query_functions import EntryGet
from trident.plan.nodes import CommittedQuery, StateQuery, StateReader, TableChanges, sources_of, walk


@dataclass
class StateQueries:
    """The queries of one group. Only the commit thread calls it.

    `births` are the births of the program's states. `writes` heals the states of this group; other states are not
    healed here.
    """

    group: Group
    births: Mapping[str, Birth]
    code: UserCode
    carriers: Carriers
    writes: StoreWrites

    def ask(self, step: StateReader, asking: Result, txid: int) -> Tuples:
        """Return the tuples of batch `txid` that query a state, with the answers.

        `_as_of` returns the batch that they see.

        A state that was born after this batch is empty, as it was at its birth.
        """
        as_of = self._as_of(step, txid)
        ask = partial(self.carriers.ask, step, asking, as_of)
        return self.writes.healed([step.updated.state.name], as_of, ask)

    def changes(self, step: TableChanges, values: Sequence[pa.Table], txid: int) -> pa.Table:
        """Return the changes that batch `txid` makes in a table whose new values are `values`."""
        tables, index = [held.state.name for held in step.tables], [] if step.index is None else [step.index.state.name]
        after = {name: self._born(name, txid) for name in tables}
        before = {name: self._born(name, txid - 1) for name in (*tables, *index)}
        make = partial(self.code.changes, step, values, after, before)
        # The index has only the previous batch: its update follows from these changes.
        return self.writes.healed(tables, txid, partial(self.writes.healed, index, txid - 1, make))

    def ask_committed(self, step: CommittedQuery, asking: pa.Table, txid: int) -> pa.Table:
        """Return tuples with the answers of committed values, for which the log has no frozen answers yet."""
        # A state of this same group is committed up to the previous batch. It is read here and not through the gate,
        # because only this code treats a state that was born after this batch as empty, and heals a state that lacks
        # batches.
        if step.updated.state.name not in self.writes.stores:
            return self.code.answer_committed(step, asking, txid)
        answers = self.ask(step, asking, txid)
        assert isinstance(answers, pa.Table)
        return answers

    def _as_of(self, step: StateReader, txid: int) -> int:
        """Return the txid as of which a query of batch `txid` reads its state: the previous batch's, or `txid` itself.

        `txid` is for a query whose tuples come from the update of the same state. Any other query sees the state as it
        was before the batch, even if the state holds the batch already, because an earlier stage has written it
        (docs/decisions/0046).
        """
        state = step.updated.state.name
        as_of = txid if step in self._behind_update else txid - 1
        return self._born(state, as_of)

    def _born(self, state: str, as_of: int) -> int:
        """Return the txid as of which to read a state instead of a txid before its birth."""
        # A read of the state as of a txid before its birth would wait forever (guard "a state born after a batch,
        # asked").
        return max(as_of, self.births[state].txid) if state in self.births else as_of

    @cached_property
    def _behind_update(self) -> frozenset[StateReader]:
        """The queries whose tuples come from the update of the state that they read.

        Queries for entries that an index found are excluded: the index holds the previous batch until it is updated.
        """
        queries = (output.step for stage in self.group.stages for output in stage.outputs)
        return frozenset(
            step
            for step in queries
            if isinstance(step, StateQuery)
            and not isinstance(step.query.function, EntryGet)
            and step.updated in walk(*sources_of(step))
        )
