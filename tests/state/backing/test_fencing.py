"""What a conditional put gives, and what a map without one cannot promise."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.state.backing.maps import LeastMap, Meddled, SqliteMap
from trident.base.errors import FencedError, SnapshotMovedError, StateUnavailableError
from trident.testing.contracts.stores import FIRST, SECOND, Setting
from trident.testing.contracts.stores.fixtures import marker, opened
from trident_state.backing import BackingMap, BackingStore

SETTING = Setting(storage=None)  # type: ignore[arg-type]
MANY = 20
PIECES = [(10_000, 1), (7, 1), (7, 2), (7, 3), (7, 4), (7, 5)]
"""How many keys go at once, and before which write something happens: the only one; or open, 7, 7, 6 keys, marker."""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Any]:
    there = SqliteMap(str(tmp_path / "states.db"), SETTING.identity)
    yield there
    there._db.close()


def over(held: BackingMap, most: int = 10_000) -> BackingStore:
    return BackingStore(SETTING.identity, SETTING.shape, SETTING.kind, lambda: held, most=most)


def start(held: BackingMap) -> None:
    store = over(held)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    SETTING.apply(store, 1, {n: 10 for n in range(MANY)})


def takes_over(held: BackingMap, at: int) -> Callable[[int], None]:
    """Another driver comes right before write number `at`, and commits batch 2 as it should be."""

    def before(write: int) -> None:
        if write == at:
            other = over(held)
            other.acquire(SECOND)
            SETTING.apply(other, 2, {n: 1 for n in range(MANY)}, lease=SECOND)

    return before


@pytest.mark.parametrize(("most", "at"), PIECES)
def test_a_driver_that_is_taken_over_within_a_batch_writes_nothing_more(held: Any, most: int, at: int) -> None:
    start(held)
    with pytest.raises(
        FencedError, match="state 'counts' belongs to the driver of epoch 2, but this driver has epoch 1"
    ):
        SETTING.apply(over(Meddled(held, takes_over(held, at)), most), 2, {n: 1 for n in range(MANY)})
    now = over(held)
    assert (marker(now), opened(now)) == (2, {None})
    assert SETTING.read(now, range(MANY), 2) == [11] * MANY
    SETTING.apply(now, 3, {n: 1 for n in range(MANY)}, lease=SECOND)
    assert SETTING.read(now, range(MANY), 3) == [12] * MANY


def test_a_plain_map_lets_such_a_driver_write_over_its_successor() -> None:
    """Which is why requireExactlyOnce refuses it. The successor is at batch 3 when a late write of batch 2 arrives."""
    held = LeastMap({})
    start(held)

    def goes_on(write: int) -> None:
        if write == 1:
            takes_over(held, 1)(1)
            SETTING.apply(over(held), 3, {n: 1 for n in range(MANY)}, lease=SECOND)

    SETTING.apply(over(Meddled(held, goes_on)), 2, {n: 1 for n in range(MANY)})
    now = over(held)
    assert marker(now) == 2, "the successor's marker was kept: this map promises more than the guide says"
    assert SETTING.read(now, range(MANY), 2) == [11] * MANY


@pytest.mark.parametrize(("most", "at"), PIECES)
def test_a_write_whose_outcome_is_not_known_is_repeated_and_counts_once(held: Any, most: int, at: int) -> None:
    """The write is done and its reply is lost."""
    start(held)

    class Lost(Meddled):
        def __getattr__(self, name: str) -> Any:
            method = super().__getattr__(name)

            def answered(*args: Any) -> Any:
                given = method(*args)
                if self.writes == at and name == "multiPutIf":
                    raise ConnectionResetError("by peer")
                return given

            return answered

    batch = {n: 1 for n in range(MANY)}
    with pytest.raises(StateUnavailableError, match="ConnectionResetError: by peer"):
        SETTING.apply(over(Lost(held, lambda write: None), most), 2, batch)
    again = over(held, most)
    applied = SETTING.apply(again, 2, batch, values=True)
    assert applied.values is not None and applied.values.to_pylist() == [11] * MANY
    assert marker(again) == 2
    assert SETTING.read(again, range(MANY), 1) == [10] * MANY


def test_a_late_write_of_ones_own_is_refused_after_the_batch(held: Any) -> None:
    """A put hangs, is given up and repeated, and arrives after the next batch."""
    start(held)
    late: list[Any] = []

    class Hanging(Meddled):
        def __getattr__(self, name: str) -> Any:
            if name != "multiPutIf" or late:
                return getattr(held, name)

            def hangs(*args: Any) -> bool:
                late.append(args)
                raise TimeoutError("no answer")

            return hangs

    with pytest.raises(StateUnavailableError, match="TimeoutError: no answer"):
        SETTING.apply(over(Hanging(held, lambda write: None)), 2, {n: 1 for n in range(MANY)})
    store = over(held)
    for txid in (2, 3):
        SETTING.apply(store, txid, {n: 1 for n in range(MANY)})
    assert held.multiPutIf(*late[0]) is False
    assert SETTING.read(store, range(MANY), 3) == [12] * MANY


def test_a_read_between_which_another_batch_came_is_not_answered_with_half_of_it(held: Any) -> None:
    start(held)
    moved = []

    class Moving:
        """Two batches come after the keys were looked up, before the marker is looked at again."""

        def __getattr__(self, name: str) -> Any:
            method = getattr(held, name)

            def gives(keys: list[bytes]) -> Any:
                found = method(keys)
                if name == "multiGet" and keys != [b"$state"] and not moved:
                    moved.append(True)
                    for txid in (2, 3):
                        SETTING.apply(over(held), txid, {n: 1 for n in range(MANY)})
                return found

            return gives

    with pytest.raises(SnapshotMovedError, match="cannot be read as of txid 1: it is already at 3"):
        SETTING.read(over(Moving()), range(MANY), 1)  # type: ignore[arg-type]
    assert moved
