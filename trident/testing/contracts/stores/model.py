"""A test: after any history of batches, repeats and restarts, a state equals a dict with the same batches."""

import itertools
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trident.base.attempt import Lease
from trident.base.errors import SnapshotMovedError
from trident.testing.contracts.stores.fixtures import Setting, Storage, entries, every_versioned_kind, marker
from trident_state.state_shape import StateKind
from trident_state.store import Store

_batch = st.dictionaries(st.integers(0, 12), st.integers(-1000, 1000), max_size=8)
_step: st.SearchStrategy[tuple[str, dict[int, int]]] = st.one_of(
    st.tuples(st.just("batch"), _batch),
    st.tuples(st.just("batch"), _batch),
    st.tuples(st.sampled_from(["again", "older", "restart", "secure", "read"]), st.just({})),
)
_names = itertools.count()


class _Model:
    """A state, the dict that must equal it after each txid (`history`), and the batches that heal the state."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.epoch = 1
        self.batches: list[dict[int, int]] = []
        self.history: list[dict[int, int]] = [{}]
        self.store = setting.started(lease=self.lease)

    @property
    def lease(self) -> Lease:
        return Lease(self.epoch, f"token{self.epoch}")

    @property
    def txid(self) -> int:
        return len(self.batches)

    def step(self, what: str, batch: dict[int, int]) -> None:
        getattr(self, what)(batch)

    def batch(self, batch: dict[int, int]) -> None:
        now = dict(self.history[-1])
        for key, delta in batch.items():
            now[key] = now.get(key, 0) + delta
        self.batches.append(batch)
        self.history.append(now)
        assert self.setting.answers(self.store, self.txid, batch, self.lease) == [now[key] for key in batch]

    def again(self, _: Any) -> None:
        if self.batches:
            answers = self.setting.answers(self.store, self.txid, self.batches[-1], self.lease)
            assert answers == [self.history[-1][key] for key in self.batches[-1]]

    def older(self, _: Any) -> None:
        if self.txid > 1:
            self.setting.apply(self.store, self.txid - 1, self.batches[-2], lease=self.lease)

    def secure(self, _: Any) -> None:
        self.setting.storage.secure(self.store)

    def restart(self, _: Any) -> None:
        """Let a later driver acquire the store, and apply again the batches that the store lost."""
        self.store = self.setting.open()
        self.epoch += 1
        self.store.acquire(self.lease)
        at = marker(self.store)
        assert at is not None and at <= self.txid
        for txid in range(at + 1, self.txid + 1):
            self.setting.apply(self.store, txid, self.batches[txid - 1], lease=self.lease)

    def read(self, _: Any) -> None:
        assert marker(self.store) == self.txid
        for as_of in range(max(0, self.txid - 1), self.txid + 1):
            expected = self.history[as_of]
            assert self.setting.read(self.store, range(14), as_of) == [expected.get(n) for n in range(14)]
            assert entries(self.store, as_of, 5) == {(f"w{n}",): value for n, value in expected.items()}
        if self.txid > 1:
            _refused(self.store, self.setting, self.txid - 2)


def _refused(store: Store, setting: Setting, as_of: int) -> None:
    try:
        setting.read(store, range(14), as_of)
    except SnapshotMovedError:
        return
    raise AssertionError(
        f"a read as of txid {as_of} returned values, and must raise SnapshotMovedError: two later batches are committed"
    )


class ModelContract:
    @every_versioned_kind
    def test_any_history_gives_what_a_dict_would_give(self, storage: Storage, kind: StateKind) -> None:
        few = settings().max_examples * 2 // 5  # a history has many steps

        @settings(max_examples=max(1, few), deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(_step, max_size=14))
        def check(steps: list[tuple[str, dict[int, int]]]) -> None:
            model = _Model(Setting(storage, kind).named(f"s{next(_names)}"))
            for what, batch in steps:
                model.step(what, batch)
            model.read(None)

        check()
