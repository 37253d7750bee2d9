"""The rule of values over a map, line by line, where a batch was interrupted: some of its keys are written."""

from typing import Any

import pyarrow as pa
import pytest

from tests.state.backing.maps import LeastMap, Meddled
from trident.base.errors import StateCorruptError, StateUnavailableError
from trident.testing.contracts.stores import FIRST, Setting
from trident.testing.contracts.stores.fixtures import COUNT, marker, opened
from trident_state.backing import BackingMap, BackingStore
from trident_state.keys import encode_keys
from trident_state.records.forms import records_of
from trident_state.state_shape import Combine, StateKind

HALF = {n: 1 for n in range(10)}


class Broken(OSError):
    """The network went away."""


def store_over(
    held: BackingMap, kind: StateKind = StateKind.OPAQUE, combine: Combine = COUNT, most: int = 5
) -> BackingStore:
    setting = Setting(storage=None, kind=kind, combine=combine)  # type: ignore[arg-type]
    return BackingStore(setting.identity, setting.shape, kind, lambda: held, most=most)


def interrupted(kind: StateKind, at: int, combine: Combine = COUNT) -> tuple[dict[bytes, bytes], BackingStore, Setting]:
    """Batch 1 gives each key 10; batch 2 breaks before its write number `at`. Then a store as after a restart."""
    entries: dict[bytes, bytes] = {}
    setting = Setting(storage=None, kind=kind)  # type: ignore[arg-type]
    store = store_over(LeastMap(entries), kind)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    setting.apply(store, 1, {n: 10 for n in HALF})

    def breaks(write: int) -> None:
        if write == at:
            raise Broken("gone")

    with pytest.raises(StateUnavailableError, match=r"state 'counts'.*Broken: gone; the call may or may"):
        setting.apply(store_over(Meddled(LeastMap(entries), breaks), kind), 2, HALF)
    return entries, store_over(LeastMap(entries), kind, combine), setting


@pytest.mark.parametrize("kind", [StateKind.TRANSACTIONAL, StateKind.OPAQUE], ids=lambda kind: kind.value)
@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_batch_that_was_interrupted_counts_once_when_it_is_applied_again(kind: StateKind, at: int) -> None:
    """The writes are: what is open, five keys, five keys, the marker."""
    _, store, setting = interrupted(kind, at)
    assert (marker(store), opened(store)) == (1, {None if at == 1 else 2})
    assert setting.read(store, list(HALF), 1) == [10] * 10, "half a batch is seen"
    applied = setting.apply(store, 2, HALF, values=True)
    assert applied.values is not None and applied.values.to_pylist() == [11] * 10
    assert (marker(store), opened(store)) == (2, {None})
    assert setting.read(store, list(HALF), 2) == [11] * 10
    assert setting.read(store, list(HALF), 1) == [10] * 10, "the value before it was lost"


def test_a_nontransactional_map_counts_again_what_was_written() -> None:
    _, store, setting = interrupted(StateKind.NON_TRANSACTIONAL, 3)
    setting.apply(store, 2, HALF)
    assert setting.read(store, list(HALF), None) == [12] * 5 + [11] * 5


@pytest.mark.parametrize(
    ("kind", "written", "value"),
    [(StateKind.TRANSACTIONAL, 5, 11), (StateKind.OPAQUE, 10, 1010)],
    ids=["transactional", "opaque"],
)
def test_where_t_is_txid_transactional_leaves_the_value_and_opaque_makes_it_again(
    kind: StateKind, written: int, value: int
) -> None:
    """Told apart by a combiner that is another one the second time; a frozen batch and unchanged code make no
    difference between the two."""
    _, store, setting = interrupted(kind, 3, Combine("Count", lambda stored, delta: stored + 1000 * delta))
    applied = setting.apply(store, 2, HALF, values=True)
    assert (applied.written, applied.skipped) == (written, 10 - written)
    assert setting.read(store, list(HALF), 2) == [value] * 5 + [1010] * 5
    assert setting.read(store, list(HALF), 1) == [10] * 10


def test_a_value_of_a_later_batch_is_never_overwritten() -> None:
    entries, store, setting = interrupted(StateKind.OPAQUE, 1)
    key = encode_keys(setting.key_table([3])).to_pylist()[0]
    form = records_of(pa.int64(), "packed", bare=False)
    entries[key] = form.pack(7, pa.array([70]), pa.array([60])).to_pylist()[0]
    before = dict(entries)
    with pytest.raises(StateCorruptError, match="batch 2"):
        setting.apply(store, 2, HALF)
    assert entries == before


@pytest.mark.parametrize("damaged", [b"", b"{", b'{"format":9}', b"\xff", b'{"format":1,"topology":"wordcount"}'])
def test_a_meta_entry_that_is_none_of_ours_is_refused(damaged: bytes) -> None:
    entries: dict[bytes, bytes] = {b"$state": damaged}
    store = store_over(LeastMap(entries))
    for ask in (store.report, store.groups_of, lambda: store.create(FIRST, 0), lambda: store.acquire(FIRST)):
        with pytest.raises(StateCorruptError, match="state 'counts': its meta entry"):
            ask()
    assert entries == {b"$state": damaged}


def test_records_that_are_none_of_ours_are_refused() -> None:
    entries, store, setting = interrupted(StateKind.OPAQUE, 1)
    entries[encode_keys(setting.key_table([3])).to_pylist()[0]] = b"junk"
    failing: list[Any] = [lambda: setting.apply(store, 2, HALF), lambda: setting.read(store, [3], 1)]
    for ask in failing:
        with pytest.raises(StateCorruptError, match="state 'counts'.*another program wrote"):
            ask()
