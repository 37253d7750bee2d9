"""Tests of values that expire only by the times of batches, so that all replays and reads as of a txid agree."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trident.base.attempt import Lease
from trident.base.errors import StateValueError
from trident.testing.contracts.stores.fixtures import (
    COUNT,
    FIRST,
    Setting,
    Storage,
    entries,
    every_versioned_kind,
    marker,
)
from trident_state.state_shape import Combine, StateKind
from trident_state.store import Store

TTL = 64.0
"""The time to live in seconds. Batches are whole seconds apart, which are 64ths of it, so that a value lives exactly
this long."""

MINE = Combine("Mine", COUNT.function)

_batch = st.tuples(
    st.dictionaries(st.integers(0, 8), st.integers(-9, 9), max_size=5),
    st.sampled_from([0, 1, 7, 31, 32, 33, 63, 64, 90]),
)
_names = itertools.count()


def put(
    setting: Setting, store: Store, txid: int, time: float, deltas: Mapping[int, Any], lease: Lease = FIRST
) -> list[Any]:
    """Apply a batch that was planned at `time`. Return the values of its keys after that."""
    update = replace(setting.update(txid, dict(deltas)), time=time)
    applied = store.apply(lease, update, True)
    assert applied.values is not None
    return list(applied.values.to_pylist())


class ExpiryContract:
    """Tests for stores with expiring values.

    `storage` needs a method ``with_ttl(seconds)``, which returns a storage with this time to live.
    """

    @pytest.fixture
    def combine(self) -> Combine:
        return COUNT

    @pytest.fixture
    def expiring(self, storage: Any, kind: StateKind, combine: Combine) -> Setting:
        return Setting(storage.with_ttl(TTL), kind, combine=combine)

    @every_versioned_kind
    @pytest.mark.parametrize("combine", [COUNT, MINE], ids=["native", "python"])
    def test_a_value_is_nothing_to_the_first_batch_after_its_time(self, expiring: Setting) -> None:
        store = expiring.started()
        assert put(expiring, store, 1, 1000.0, {1: 10, 2: 20}) == [10, 20]
        assert put(expiring, store, 2, 1063.0, {1: 1}) == [11], "not yet"
        assert expiring.read(store, [1, 2], 2) == [11, 20]
        assert put(expiring, store, 3, 1064.0, {3: 3}) == [3]
        assert expiring.read(store, [1, 2, 3], 3) == [11, None, 3]
        assert expiring.read(store, [1, 2, 3], 2) == [11, 20, None], "as of the batch before it is still there"
        assert entries(store, 3) == {("w1",): 11, ("w3",): 3}
        assert entries(store, 2) == {("w1",): 11, ("w2",): 20}
        assert put(expiring, store, 4, 1070.0, {2: 5}) == [5], "it begins anew"
        assert expiring.read(store, [2], 3) == [None]
        assert expiring.read(store, [2], None) == [5]

    @every_versioned_kind
    @pytest.mark.parametrize("combine", [COUNT, MINE], ids=["native", "python"])
    def test_the_batch_that_finds_a_value_gone_leaves_it_to_reads_as_of_the_one_before(self, expiring: Setting) -> None:
        store = expiring.started()
        put(expiring, store, 1, 1000.0, {1: 10})
        put(expiring, store, 2, 1001.0, {2: 1})
        assert put(expiring, store, 3, 1064.0, {1: 1, 2: 1}) == [1, 2]
        assert expiring.read(store, [1, 2], 2) == [10, 1]
        assert expiring.read(store, [1, 2], 3) == [1, 2]

    @every_versioned_kind
    def test_no_clock_but_the_batches_times_decides_and_one_that_goes_back_brings_nothing_back(
        self, expiring: Setting
    ) -> None:
        store = expiring.started()
        for txid, time in enumerate([5e9, 5e9 + 10, 5e9 - 50, 5e9 - 40, 5e9 + 63], start=1):
            put(expiring, store, txid, time, {txid: txid})
        assert entries(store, 5) == {(f"w{n}",): n for n in range(1, 6)}, "none is older than the batch before it"
        put(expiring, store, 6, 5e9 + 64, {})
        assert sorted(entries(store, 6).values()) == [2, 3, 4, 5]

    @every_versioned_kind
    def test_a_clock_that_was_far_ahead_does_not_keep_values_for_ever(self, expiring: Setting) -> None:
        """Values that expired too early stay gone. Later values live for the time between batches again."""
        store = expiring.started()
        for txid, time in enumerate([1000.0, 5e9, 1002.0, 1034.0, 1065.0], start=1):
            put(expiring, store, txid, time, {txid: txid})
        assert sorted(entries(store, 5).values()) == [2, 3, 4, 5]
        put(expiring, store, 6, 1066.0, {})
        assert sorted(entries(store, 6).values()) == [4, 5], "those of the batch that was ahead, and right behind it"

    @every_versioned_kind
    @pytest.mark.parametrize("behind", [[5.0], [5.0, 8.0], [1.0, 20.0, 2.0]])
    def test_a_clock_that_was_far_behind_and_is_right_again_lets_no_value_expire_early(
        self, expiring: Setting, behind: list[float]
    ) -> None:
        store = expiring.started()
        put(expiring, store, 1, 1e9, {1: 1})
        for txid, time in enumerate([*behind, 1e9 + 30], start=2):
            put(expiring, store, txid, time, {2: 1})
        assert entries(store, 2 + len(behind)) == {("w1",): 1, ("w2",): 1 + len(behind)}
        put(expiring, store, 3 + len(behind), 1e9 + 66, {})
        assert entries(store, 3 + len(behind)) == {("w2",): 1 + len(behind)}, "the first value has its whole life"

    @every_versioned_kind
    @pytest.mark.parametrize("combine", [COUNT, MINE], ids=["native", "python"])
    def test_a_batch_brings_the_rule_that_it_was_frozen_under(self, expiring: Setting) -> None:
        store = expiring.started()
        put(expiring, store, 1, 1000.0, {1: 1, 2: 1})
        for txid, time, life in ((2, 1200.0, math.inf), (3, 1300.0, 1000.0)):
            update = replace(expiring.update(txid, {1: 1}), time=time, ttl=life)
            store.apply(FIRST, update)
        assert entries(store, 3) == {("w1",): 3, ("w2",): 1}
        put(expiring, store, 4, 1300.5, {2: 1})
        assert entries(store, 4) == {("w1",): 3, ("w2",): 1}, "and the store's own where it brings none"

    @every_versioned_kind
    def test_what_an_update_reads_before_it_is_written_is_what_its_batch_finds(self, expiring: Setting) -> None:
        store: Any = expiring.started()
        put(expiring, store, 1, 1000.0, {1: 10, 2: 20})
        put(expiring, store, 2, 1050.0, {2: 1})
        keys = expiring.update(3, {1: 0, 2: 0, 3: 0}).keys
        assert store.read_for(keys, 3, 1063.0).to_pylist() == [10, 21, None]
        assert store.read_for(keys, 3, 1064.0).to_pylist() == [None, 21, None]
        assert [row["value"] for page in store.scan_for(3, 1064.0) for row in page.to_pylist()] == [21]
        assert expiring.read(store, [1, 2], 2) == [10, 21], "readers see it until that batch is committed"

    @every_versioned_kind
    def test_a_replay_finds_what_the_first_try_found(self, expiring: Setting) -> None:
        """A later driver applies lost batches again, with the times in the log. Every read returns the same values."""
        store = expiring.started()
        put(expiring, store, 1, 1000.0, {1: 1, 2: 2})
        put(expiring, store, 2, 1050.0, {2: 1})
        expiring.storage.secure(store)
        later = [(3, 1064.0, {3: 1}), (4, 1100.0, {1: 5, 3: 1}), (5, 1114.0, {2: 7})]
        for txid, time, deltas in later:
            put(expiring, store, txid, time, deltas)
        expected = {as_of: entries(store, as_of) for as_of in (4, 5)}
        again, second = expiring.open(), Lease(2, "second")
        again.acquire(second)
        at = marker(again)
        assert at is not None
        for txid, time, deltas in later[at - 2 :]:
            put(expiring, again, txid, time, deltas, second)
        assert {as_of: entries(again, as_of) for as_of in (4, 5)} == expected
        assert expected[5] == {("w1",): 5, ("w2",): 7, ("w3",): 2}

    @every_versioned_kind
    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_batch_that_is_there_already_brings_nothing_back(self, expiring: Setting, restarted: bool) -> None:
        """A power loss may remove COMMITTED from the log. Then that batch and later batches are committed again."""
        store, lease = expiring.started(), FIRST
        put(expiring, store, 1, 1000.0, {1: 1, 2: 2})
        put(expiring, store, 2, 1030.0, {2: 1})
        put(expiring, store, 3, 1064.0, {3: 3})
        if restarted:
            expiring.storage.secure(store)
            store, lease = expiring.open(), Lease(2, "second")
            store.acquire(lease)
        put(expiring, store, 2, 1030.0, {}, lease)
        assert put(expiring, store, 3, 1064.0, {3: 3}, lease) == [3]
        assert put(expiring, store, 4, 1065.0, {1: 5, 2: 1}, lease) == [5, 4]
        assert entries(store, 4) == {("w1",): 5, ("w2",): 4, ("w3",): 3}
        assert entries(store, 3) == {("w2",): 3, ("w3",): 3}
        put(expiring, store, 5, 1128.0, {}, lease)
        assert entries(store, 5) == {("w1",): 5, ("w2",): 4}, "and its time is still known"

    @every_versioned_kind
    def test_any_history_gives_what_a_dict_with_times_would_give(self, storage: Any, kind: StateKind) -> None:
        few = settings().max_examples // 4  # a history has many steps

        @settings(max_examples=max(1, few), deadline=None, suppress_health_check=list(HealthCheck))
        @given(st.lists(_batch, min_size=1, max_size=12), st.integers(0, 12), st.sampled_from([COUNT, MINE]))
        def check(batches: list[tuple[dict[int, int], int]], restart: int, combine: Combine) -> None:
            setting = Setting(storage.with_ttl(TTL), kind, combine=combine).named(f"t{next(_names)}")
            store, lease, time = setting.started(), FIRST, 1000
            held: dict[int, tuple[int, int]] = {}
            seen = [dict[int, int]()]
            times = []
            for txid, (batch, seconds) in enumerate(batches, start=1):
                times.append(time := time + seconds)
                held = {key: (value, at) for key, (value, at) in held.items() if at > time - TTL}
                for key, delta in batch.items():
                    held[key] = (held.get(key, (0, 0))[0] + delta, time)
                seen.append({key: value for key, (value, _) in held.items()})
                assert put(setting, store, txid, time, batch, lease) == [seen[-1][key] for key in batch]
                if txid == restart:
                    store, lease = setting.open(), Lease(2, "second")
                    store.acquire(lease)
                    at = marker(store)
                    assert at is not None
                    for lost in range(at + 1, txid + 1):
                        put(setting, store, lost, times[lost - 1], batches[lost - 1][0], lease)
                for as_of in (txid - 1, txid):
                    assert entries(store, as_of) == {(f"w{key}",): value for key, value in seen[as_of].items()}
                    assert setting.read(store, range(9), as_of) == [seen[as_of].get(key) for key in range(9)]

        check()

    def test_a_state_that_is_told_to_keep_everything_from_now_on_brings_nothing_back(self, storage: Any) -> None:
        setting = Setting(storage.with_ttl(TTL))
        store = setting.started()
        put(setting, store, 1, 1000.0, {1: 10, 2: 20})
        put(setting, store, 2, 1040.0, {2: 1})
        put(setting, store, 3, 1064.0, {3: 30})
        setting.storage.secure(store)
        setting = replace(setting, storage=storage)
        again, second = setting.open(), Lease(2, "second")
        again.acquire(second)
        assert entries(again, 3) == {("w2",): 21, ("w3",): 30}
        assert put(setting, again, 4, 9999.0, {1: 1, 2: 1}, second) == [1, 22]
        assert entries(again, 4) == {("w1",): 1, ("w2",): 22, ("w3",): 30}
        assert entries(again, 3) == {("w2",): 21, ("w3",): 30}

    def test_a_batch_without_a_time_is_refused(self, expiring: Setting) -> None:
        store = expiring.started()
        with pytest.raises(StateValueError, match="state 'counts': batch 1 has no time, which a state with ttlSecs=64"):
            expiring.apply(store, 1, {1: 1})
        assert marker(store) == 0


__all__ = ["TTL", "ExpiryContract", "Storage", "put"]
