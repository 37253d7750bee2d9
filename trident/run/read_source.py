"""The `ReadSource` of a run: the group that writes a state, the group's last committed txid, the state's store."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager

from trident.base.errors import FencedError, TridentError
from trident.batches.group_run import GroupRun
from trident.log.protocol import Birth
from trident.reads.commit_times import CommitTimes
from trident.reads.static_states import ReadableStore
from trident.recovery.evolving_store import EvolvingStore
from trident_state.state_shape import StateKind
from trident_state.store import Store


class RunReadSource:
    """The `ReadSource` of a running topology.

    `statics` are the states that no batch writes. They do not belong to a group. `births` are those of the other
    states, which change when a state gets another shape.
    """

    def __init__(
        self,
        name: str,
        runs: Mapping[str, GroupRun],
        stores: Mapping[str, Store],
        statics: Mapping[str, ReadableStore] | None = None,
        births: Mapping[str, Birth] | None = None,
    ) -> None:
        statics = statics or {}
        self._births = births or {}
        writers = [(step.state, group) for group, run in runs.items() for step in run.group.states]
        self._name = name
        self._runs = runs
        self._turns = {group: run.turns for group, run in runs.items()}
        self._stores: Mapping[str, ReadableStore] = {**stores, **statics}
        self._kinds = {state.name: state.factory.kind for state, _ in writers}
        self._kinds |= dict.fromkeys(statics, StateKind.NON_TRANSACTIONAL)
        self._groups = {state.name: group for state, group in writers}
        self._process = os.getpid()

    def group_of(self, state: str) -> str:
        return self._groups[state]

    def committed(self, group: str) -> int:
        return self._turns[group].committed

    def first_txid(self, state: str) -> int:
        """Return the first txid as of which a state has values."""
        birth = self._births.get(state)
        return 0 if birth is None else birth.first

    def times(self, group: str) -> CommitTimes:
        """Return when the group's batches were committed."""
        return self._turns[group].times

    def between(self, group: str) -> AbstractContextManager[int]:
        return self._turns[group].gate.between()

    def check_other_turn(self, group: str) -> None:
        """Raise TridentError in a thread of the group's commit turn."""
        if self._runs[group].commits_in_this_thread():
            raise TridentError(
                f"topology {self._name!r}: asOf='previous' waits for the batch that is being committed, and that "
                f"commit waits for the output, updater or later function that reads here. Read the last committed "
                f"batch, without asOf; or read in another thread"
            )

    def store(self, state: str) -> ReadableStore:
        store = self._stores[state]
        return store.settled if isinstance(store, EvolvingStore) else store

    def kind(self, state: str) -> StateKind:
        return self._kinds[state]

    def isPrompt(self, state: str) -> bool:
        return getattr(self._stores[state], "isPrompt", False)

    def check(self) -> None:
        """Raise TridentError in a forked child, and FencedError after another driver took over the run."""
        self.check_process()
        for run in self._runs.values():
            if isinstance(run.error, FencedError):
                raise run.error

    def check_process(self) -> None:
        """Raise TridentError in a forked child, which has no thread of the run."""
        if os.getpid() != self._process:
            raise TridentError(f"topology {self._name!r} runs in the process that forked this one; call it there")
