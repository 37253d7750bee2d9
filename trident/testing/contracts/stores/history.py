"""Tests of reads as of earlier txids, for stores that keep more of them than two (`trident_state.store.Historic`)."""

import random
from typing import Any

import pytest

from trident.testing.contracts.stores.expiring import TTL, put
from trident.testing.contracts.stores.fixtures import FIRST, JOIN, LAST, SECOND, Setting, every_versioned_kind, marker
from trident_state.state_shape import Combine, StateKind
from trident_state.store import Historic, Store

_KEYS = 12
Model = dict[Any, Any]


class HistoryContract:
    """Tests for stores that are `Historic`, of a storage whose states keep the txids of the last minutes at least."""

    def settle(self, store: Store) -> None:
        """Let the store do its upkeep, such as merges, before it is read."""

    @every_versioned_kind
    @pytest.mark.parametrize("combine", [None, LAST, JOIN], ids=["native", "last", "python"])
    def test_each_kept_txid_is_read_as_it_was(self, setting: Setting, combine: Combine | None, kind: StateKind) -> None:
        setting = setting if combine is None else Setting(setting.storage, kind, combine=combine)
        draw, store, lease = random.Random(7), setting.started(birth=3), FIRST
        models: dict[int, Model] = {3: {}}
        for txid in range(4, 60):
            deltas = {n: draw.randint(-9, 9) for n in draw.sample(range(_KEYS), draw.randint(0, 4))}
            if combine is LAST and deltas and draw.random() < 0.5:
                deltas[next(iter(deltas))] = None  # type: ignore[assignment]
            setting.apply(store, txid, deltas, lease=lease)
            models[txid] = _after(models[txid - 1], deltas, combine is LAST)
            if txid == 20:
                setting.apply(store, txid, {1: 77}, lease=lease)  # a replay changes nothing
            if txid == 40:
                store, lease = setting.open(), SECOND
                store.acquire(lease)
            if txid % 13 == 0:
                self.settle(store)
                check_history(setting, store, models)
        check_history(setting, setting.open(), models)

    @every_versioned_kind
    def test_a_value_has_expired_as_of_the_txids_after_its_time(self, storage: Any, kind: StateKind) -> None:
        setting = Setting(storage.with_ttl(TTL), kind)
        draw, store, time = random.Random(11), setting.started(), 1000.0
        models: dict[int, Model] = {0: {}}
        for txid in range(1, 50):
            time += draw.choice([1.0, 9.0, 20.0, 40.0])
            deltas = {n: 1 for n in draw.sample(range(_KEYS), draw.choice([0, 0, 1, 3]))}
            put(setting, store, txid, time, deltas)
            models[txid] = _scanned(store, txid)
            if txid % 11 == 0:
                self.settle(store)
                check_history(setting, store, models)

    @every_versioned_kind
    def test_a_read_under_way_ends_as_of_its_txid(self, setting: Setting) -> None:
        store = setting.started()
        setting.apply(store, 1, {n: 1 for n in range(3_000)})
        assert isinstance(store, Historic)
        scan = store.at(1).scan(1, 100)
        seen = next(scan).num_rows
        for txid in range(2, 12):
            setting.apply(store, txid, {n: 1 for n in range(6_000)})
        self.settle(store)
        for page in scan:
            assert set(page.column("value").to_pylist()) == {1}
            seen += page.num_rows
        assert seen == 3_000


def check_history(setting: Setting, store: Store, models: dict[int, Model]) -> None:
    """Compare the state as of each kept txid with the model. Fails if the store keeps no more than two txids."""
    assert isinstance(store, Historic)
    at = marker(store)
    assert at is not None
    first = store.kept_since()
    assert first <= at - 2, f"only the txids {first} to {at} are kept"
    for txid in range(first, at + 1):
        past, model = store.at(txid), models[txid]
        assert _scanned(past, txid) == model, f"as of {txid} at {at}"
        found = past.read(setting.key_table(range(_KEYS)), txid)
        assert found.asOf == txid
        assert found.values.to_pylist() == [model.get(f"w{n}") for n in range(_KEYS)], f"as of {txid} at {at}"


def _scanned(store: Any, txid: int) -> Model:
    pages = [page for page in store.scan(txid, 5)]
    return {word: value for page in pages for word, value in zip(*map(_plain, page.columns), strict=True)}


def _plain(column: Any) -> list[Any]:
    return list(column.to_pylist())


def _after(before: Model, deltas: dict[int, Any], replaced: bool) -> Model:
    after = dict(before)
    for n, delta in deltas.items():
        if delta is None:
            after.pop(f"w{n}", None)
        else:
            after[f"w{n}"] = delta if replaced else after.get(f"w{n}", 0) + delta
    return after
