"""What reads need of a run: which group writes a state, how far it is, and its store."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager

from trident.reads.static_states import Readable
from trident.run.group_run import GroupRun
from trident_state.state_shape import StateKind
from trident_state.store import Store


class RunCommits:
    """The `Commits` of a running topology."""

    def __init__(
        self,
        runs: Mapping[str, GroupRun],
        stores: Mapping[str, Store],
        kinds: Mapping[str, StateKind],
        check: Callable[[], None],
        statics: Mapping[str, Readable] | None = None,
    ) -> None:
        """`statics` are the states that are only read: they belong to no group."""
        self._runs = runs
        self._stores: Mapping[str, Readable] = {**stores, **(statics or {})}
        self._kinds = {**kinds, **dict.fromkeys(statics or (), StateKind.NON_TRANSACTIONAL)}
        self._groups = {step.state.name: name for name, run in runs.items() for step in run.group.states}
        self._check = check

    def group_of(self, state: str) -> str:
        return self._groups[state]

    def committed(self, group: str) -> int:
        return self._runs[group].committed

    def between(self, group: str) -> AbstractContextManager[int]:
        return self._runs[group].gate.between()

    def store(self, state: str) -> Readable:
        return self._stores[state]

    def kind(self, state: str) -> StateKind:
        return self._kinds[state]

    def check(self) -> None:
        self._check()
