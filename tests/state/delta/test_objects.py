"""A state in a Delta table on an object store: a real S3 server, whose conditional writes make each version once."""

import pytest

from tests.state.delta.states import at_point, setting_in
from tests.support.objects import Objects
from tests.support.objects import objects as objects
from tests.support.objects import s3_server as s3_server
from trident.base.errors import FencedError, StateError
from trident.testing.contracts.stores.fixtures import COUNT, LAST, SECOND, Setting, entries, marker
from trident_state.delta.compaction import LEAST
from trident_state.delta.vacuum import Retention
from trident_state.state_shape import Combine


def setting_on(objects: Objects, combine: Combine = COUNT) -> Setting:
    return setting_in(objects.url, combine, storageOptions=objects.server.delta_storage)


@pytest.mark.parametrize("combine", [COUNT, LAST], ids=["deltas", "whole"])
def test_batches_merges_a_restart_and_a_drop(objects: Objects, combine: Combine) -> None:
    setting = setting_on(objects, combine)
    store = setting.started()
    store.upkeep.after = lambda version: None  # type: ignore[attr-defined]
    for txid in range(1, LEAST + 2):
        setting.apply(store, txid, {n: txid for n in range(txid, txid + 20)})
    expected = entries(store, LEAST + 1)
    store.upkeep.run()  # type: ignore[attr-defined]
    store.upkeep._table.checkpoint()  # type: ignore[attr-defined]
    store.upkeep.cleaner.clean(Retention(0, 2))  # type: ignore[attr-defined]
    assert entries(store, LEAST + 1) == expected
    again = setting.open()
    again.acquire(SECOND)
    assert entries(again, LEAST + 1) == expected
    with pytest.raises(FencedError):
        setting.apply(store, LEAST + 2, {1: 1})
    setting.apply(again, LEAST + 2, {1: 1}, lease=SECOND)
    assert marker(again) == LEAST + 2
    again.drop(SECOND)
    assert setting.open().report().absent
    setting.started(birth=5, lease=SECOND)
    assert entries(setting.open(), None) == {}


def test_a_driver_that_is_replaced_while_it_writes_adds_nothing(objects: Objects) -> None:
    setting = setting_on(objects)
    zombie, other = setting.started(), setting.open()
    with at_point("delta.written", lambda: other.acquire(SECOND)), pytest.raises(FencedError):
        setting.apply(zombie, 1, {1: 5})
    assert entries(other, 0) == {}


def test_a_bucket_that_is_not_there_is_said(objects: Objects) -> None:
    setting = setting_in("s3://nowhere-at-all/states", storageOptions=objects.server.delta_storage)
    with pytest.raises(StateError, match="state 'counts'"):
        setting.started()
