"""A state of at most so many keys: the least recently updated go, the same ones whoever applies the batches."""

import random
from pathlib import Path

import pytest

from tests.state.contract import FIRST, SECOND, Setting
from tests.state.contract.place import entries, marker
from tests.state.memory.homes import NEVER, Line
from trident import Count, TridentTopology
from trident.errors import GuaranteeError
from trident.plan.guarantee import demand_exactly_once, guarantees
from trident.spouts import FixedBatchSpout
from trident.state import LRUMemoryMapState
from trident_state.memory import MemoryStore
from trident_state.store import StateKind

SETTING = Setting(None)  # type: ignore[arg-type]


def opened(folder: Path | None, most: int) -> MemoryStore:
    return MemoryStore(SETTING.identity, SETTING.shape, StateKind.OPAQUE, Line(folder), pace=NEVER, most=most)


def started(folder: Path | None, most: int) -> MemoryStore:
    store = opened(folder, most)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    return store


def test_the_least_recently_updated_keys_go_and_begin_anew() -> None:
    store = started(None, 8)
    for txid in range(1, 9):
        SETTING.apply(store, txid, {txid: 10})
    SETTING.apply(store, 9, {1: 1})
    assert entries(store, 9)[("w1",)] == 11
    SETTING.apply(store, 10, {9: 10})  # the ninth key: 2 and 3 were updated longest ago
    assert set(entries(store, 10)) == {(f"w{n}",) for n in (1, 4, 5, 6, 7, 8, 9)}
    assert set(entries(store, 9)) == {(f"w{n}",) for n in range(1, 9)}, "as of the batch before they are there"
    applied = SETTING.apply(store, 11, {2: 5}, values=True)
    assert applied.values is not None and applied.values.to_pylist() == [5]


def test_a_batch_of_more_keys_than_there_may_be_stays_until_the_next() -> None:
    store = started(None, 8)
    SETTING.apply(store, 1, {n: 1 for n in range(100)})
    SETTING.apply(store, 2, {n: 1 for n in range(100, 120)})
    assert set(entries(store, 2)) == {(f"w{n}",) for n in range(100, 120)}


def test_a_restart_in_the_middle_forgets_the_same_keys(tmp_path: Path) -> None:
    random_ = random.Random(7)
    batches = [{random_.randrange(30_000): 1 for _ in range(700)} for _ in range(60)]
    straight, halting, lease = started(None, 5_000), started(tmp_path / "state", 5_000), FIRST
    for txid, batch in enumerate(batches, start=1):
        SETTING.apply(straight, txid, batch)
        SETTING.apply(halting, txid, batch, lease=lease)
        if txid % 7 == 3:
            halting.snapshot()
        if txid == 33:
            halting, lease = opened(tmp_path / "state", 5_000), SECOND
            halting.acquire(lease)
            at = marker(halting)
            assert at is not None and at == 31
            for lost in range(at + 1, 34):
                SETTING.apply(halting, lost, batches[lost - 1], lease=lease)
        found = entries(straight, txid)
        assert found == entries(halting, txid)
        assert len(found) <= 5_000
    assert straight._entries is not None
    assert len(straight._entries) <= 6_500


def test_it_is_exactly_once_for_what_it_keeps_and_says_so() -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",)]]))
    words.groupBy("word").persistentAggregate(LRUMemoryMapState(100), Count(), "count", name="counts")
    (found,) = guarantees(topology.sinks)
    assert not found.exactlyOnce
    assert str(found) == "exactly-once, for the keys it keeps: a key forgotten for lack of room begins anew"
    with pytest.raises(GuaranteeError, match="LRUMemoryMapState.*take a state that keeps all keys, or one whose"):
        demand_exactly_once(topology)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None])
def test_a_number_of_keys_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match=r"maxKeys=.*: expected a number of keys, 1 or more"):
        LRUMemoryMapState(wrong)  # type: ignore[arg-type]
