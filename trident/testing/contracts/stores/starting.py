"""Tests of a start: report, create and acquire a state, find it after a restart, drop it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from trident.base.attempt import Lease
from trident.base.errors import FencedError, StateBehindError, StateRecoveringError, StateUnavailableError
from trident.testing.contracts.stores.fixtures import (
    FIRST,
    SECOND,
    Setting,
    Storage,
    entries,
    every_kind,
    marker,
    opened,
)
from trident_state.state_shape import StateKind
from trident_state.store import Store

THIRD = Lease(3, "third")


class StartContract:
    def test_an_empty_place_is_reported_as_absent(self, storage: Storage) -> None:
        store = Setting(storage).open()
        report = store.report()
        assert report.absent
        assert (report.identity, report.fingerprint, report.kind) == (None, None, None)
        assert store.report() == report, "a report touches nothing"

    @every_kind
    def test_a_created_state_stands_at_its_birth_and_says_what_it_is(self, setting: Setting, kind: StateKind) -> None:
        store = setting.open()
        store.create(FIRST, 7)
        report = store.report()
        assert not report.absent
        assert report.identity == setting.identity
        assert report.fingerprint == setting.shape.fingerprint == "(word string) -> int64 by Count"
        assert report.kind is kind
        assert {group.marker for group in report.groups} == {7}
        assert entries(store, None) == {}

    def test_creating_again_under_the_same_lease_changes_nothing(self, setting: Setting) -> None:
        store = setting.started(birth=3)
        setting.apply(store, 4, {1: 10})
        store.create(FIRST, 3)
        assert (marker(store), setting.read(store, [1], 4)) == (4, [10])

    @every_kind
    def test_a_restart_finds_what_was_there(
        self, setting: Setting, store: Store, storage: Storage, kind: StateKind
    ) -> None:
        setting.apply(store, 1, {1: 10, 2: 20})
        setting.apply(store, 2, {1: 1})
        storage.secure(store)
        again = setting.open()
        report = again.report()
        assert report.identity == setting.identity
        assert (report.fingerprint, report.kind) == (setting.shape.fingerprint, kind)
        assert {group.marker for group in report.groups} == {2}
        again.acquire(SECOND)
        assert setting.read(again, [1, 2, 3], None) == [11, 20, None]
        setting.apply(again, 3, {1: 1, 3: 30}, lease=SECOND)
        assert setting.read(again, [1, 2, 3], None) == [12, 20, 30]

    def test_a_state_that_is_created_and_never_written_is_there_after_a_restart(self, setting: Setting) -> None:
        setting.started(birth=5)
        again = setting.open()
        report = again.report()
        assert report.identity == setting.identity
        assert {group.marker for group in report.groups} == {5}
        again.acquire(SECOND)
        setting.apply(again, 6, {1: 1}, lease=SECOND)
        assert setting.read(again, [1], 6) == [1]

    def test_what_is_durable_is_never_beyond_the_marker(self, setting: Setting, storage: Storage) -> None:
        store = setting.started(birth=2)
        assert store.durable() == 2
        setting.apply(store, 3, {1: 1})
        assert store.durable() in (2, 3)
        storage.secure(store)
        assert store.durable() == 3

    def test_the_previous_values_survive_a_restart_too(self, setting: Setting, store: Store, storage: Storage) -> None:
        setting.apply(store, 1, {1: 10})
        setting.apply(store, 2, {1: 5, 2: 7})
        storage.secure(store)
        again = setting.open()
        again.acquire(SECOND)
        assert setting.read(again, [1, 2], 1) == [10, None]
        assert setting.read(again, [1, 2], 2) == [15, 7]

    # --- leases ----------------------------------------------------------------------------------------------

    def test_every_group_shows_the_lease_that_holds_it(self, store: Store) -> None:
        assert {group.lease for group in store.groups_of()} == {FIRST}
        store.acquire(SECOND)
        assert {group.lease for group in store.groups_of()} == {SECOND}

    def test_an_older_driver_cannot_acquire(self, storage: Storage) -> None:
        store = Setting(storage).started(lease=SECOND)
        with pytest.raises(FencedError, match=r"state 'counts'.*epoch 2.*epoch 1"):
            store.acquire(FIRST)
        assert {group.lease for group in store.groups_of()} == {SECOND}

    def test_a_driver_of_the_same_epoch_with_another_token_cannot_acquire(self, store: Store) -> None:
        with pytest.raises(FencedError, match=r"state 'counts'.*epoch 1"):
            store.acquire(Lease(FIRST.epoch, "other"))

    def test_acquiring_again_under_the_same_lease_loses_nothing(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: 10})
        store.acquire(FIRST)
        assert (marker(store), opened(store)) == (1, {None})
        assert setting.read(store, [1], 1) == [10]

    @every_kind
    def test_after_a_later_driver_acquired_nothing_is_written_under_the_older_lease(
        self, setting: Setting, store: Store
    ) -> None:
        setting.apply(store, 1, {1: 10})
        store.acquire(SECOND)
        for lease in (FIRST, Lease(SECOND.epoch, "other")):
            for update in ({1: 5, 2: 5}, {}):
                with pytest.raises(FencedError, match="state 'counts'.*epoch 2"):
                    setting.apply(store, 2, update, lease=lease)
        assert (marker(store), opened(store)) == (1, {None})
        assert setting.read(store, [1, 2], None) == [10, None]
        setting.apply(store, 2, {1: 5}, lease=SECOND)
        assert setting.read(store, [1], 2) == [15]

    def test_a_store_that_was_not_acquired_is_taken_for_a_rewound_one(self, setting: Setting, store: Store) -> None:
        setting.apply(store, 1, {1: 10})
        with pytest.raises(StateBehindError) as caught:
            setting.apply(store, 2, {1: 5}, lease=SECOND)
        assert caught.value.marker == 1
        assert setting.read(store, [1], None) == [10]

    def test_a_store_that_is_not_there_is_taken_for_a_rewound_one(self, setting: Setting) -> None:
        with pytest.raises(StateBehindError) as caught:
            setting.apply(setting.open(), 1, {1: 5})
        assert caught.value.marker == -1
        assert setting.open().report().absent

    # --- drop ------------------------------------------------------------------------------------------------

    def test_drop_leaves_nothing_of_this_state_and_all_of_others(self, setting: Setting, storage: Storage) -> None:
        others = [
            setting.named("counts2"),
            setting.named("count"),
            replace(setting, identity=replace(setting.identity, topology="wordcount2")),
        ]
        stores = [other.started() for other in others]
        for other, store in zip(others, stores, strict=True):
            other.apply(store, 1, {1: 1, 2: 2})
        store = setting.started()
        setting.apply(store, 1, {n: n for n in range(3000)})
        storage.secure(store)
        store.drop()
        assert store.report().absent
        assert setting.open().report().absent
        for other, kept in zip(others, stores, strict=True):
            assert kept.report().identity == other.identity
            assert entries(kept, 1) == {("w1",): 1, ("w2",): 2}

    def test_a_dropped_state_can_be_created_anew_and_is_empty(
        self, setting: Setting, store: Store, storage: Storage
    ) -> None:
        setting.apply(store, 1, {1: 10})
        storage.secure(store)
        store.drop()
        store.drop()
        again = setting.started(birth=1, lease=SECOND)
        assert setting.read(again, [1], None) == [None]
        setting.apply(again, 2, {1: 3}, lease=SECOND)
        assert setting.read(again, [1], 2) == [3]

    def test_a_new_store_can_drop_what_another_one_wrote(
        self, setting: Setting, store: Store, storage: Storage
    ) -> None:
        setting.apply(store, 1, {1: 10})
        storage.secure(store)
        dropping = setting.open()
        dropping.acquire(SECOND)
        dropping.drop()
        assert setting.open().report().absent

    def test_a_drop_that_was_interrupted_leaves_no_part_that_looks_whole_and_can_be_repeated(
        self, setting: Setting, storage: Storage, interrupt: Callable[[Store, int], None] | None
    ) -> None:
        if interrupt is None:
            pytest.skip("the fixture 'interrupt' is not defined")
        there = {(f"w{n}",): 2 * n for n in range(100)}
        for request in range(1, 50):
            store = setting.started()
            for txid in (1, 2):
                setting.apply(store, txid, {n: n for n in range(100)})
            storage.secure(store)
            dropping = setting.open()
            dropping.acquire(SECOND)
            interrupt(dropping, request)
            try:
                dropping.drop(SECOND)
            except StateUnavailableError:
                _check_whole_or_told(setting.open(), there)
                setting.open().drop(THIRD)
                assert setting.open().report().absent
            else:
                assert request > 1 and setting.open().report().absent
                return
        raise AssertionError("the drop never ends")

    def test_the_shape_is_readable_in_the_report(self, storage: Storage) -> None:
        setting = Setting(storage, keys=pa.schema({"user": pa.int64(), "day": pa.date32()}), value=pa.float64())
        assert setting.started().report().fingerprint == "(user int64, day date32[day]) -> double by Count"


def _check_whole_or_told(store: Store, there: dict[Any, Any]) -> None:
    """Fail if entries of a state are missing and neither its report nor an acquisition reports that."""
    if all(group.marker is not None for group in store.report().groups):
        assert (marker(store), entries(store, 2)) == (2, there), "what is left of the state looks whole"
        return
    with pytest.raises((StateBehindError, StateRecoveringError)):
        store.acquire(THIRD)
