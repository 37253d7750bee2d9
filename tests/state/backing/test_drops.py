"""A drop of a state in a map takes several steps, and may end after any of them."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import counted, counting, fixed
from tests.state.backing.maps import LeastMap, PlainMap, SqliteMap, interrupt_before
from trident import dropState, openState
from trident.errors import FencedError, StateError, StateLostError, StateUnavailableError
from trident.state import BackingMapState, SqliteMapState, StateIdentity
from trident.testing.contracts.stores import FIRST, SECOND, Setting
from trident.testing.contracts.stores.fixtures import entries, marker
from trident_state.backing import BackingMap, BackingStore
from trident_state.backing.protocol import META
from trident_state.relational.sqlite_table import SqliteTable

SETTING = Setting(storage=None)  # type: ignore[arg-type]
MANY = 20


def over(held: BackingMap, most: int = 7) -> BackingStore:
    return BackingStore(SETTING.identity, SETTING.shape, SETTING.kind, lambda: held, most=most)


@pytest.fixture(params=[SqliteMap, PlainMap], ids=["fenced", "plain"])
def held(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A map whose state is at txid 1."""
    there = request.param(str(tmp_path / "states.db"), SETTING.identity)
    store = over(there)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    SETTING.apply(store, 1, {n: 10 for n in range(MANY)})
    yield there
    there._db.close()


def dropped_in_part(held: BackingMap, write: int, lease: Any = None) -> None:
    """Drop the state, up to the given write: the meta entry, 7, 7, 6 keys, the meta entry again."""
    dropping = over(held)
    interrupt_before(dropping, write)
    with pytest.raises(StateUnavailableError, match="interrupted"):
        dropping.drop(lease)


@pytest.mark.parametrize("write", [2, 3, 5])
def test_a_state_whose_drop_was_interrupted_is_created_anew_without_its_former_entries(held: Any, write: int) -> None:
    """As a living driver does, which then applies all batches since the state's birth again."""
    dropped_in_part(held, write)
    again = over(held)
    again.create(SECOND, 4)
    again.acquire(SECOND)
    assert (marker(again), entries(again, 4)) == (4, {})
    SETTING.apply(again, 5, {1: 3}, lease=SECOND)
    assert entries(again, 5) == {("w1",): 3}


def test_a_former_driver_neither_writes_nor_creates_what_a_later_one_was_dropping(held: Any) -> None:
    dropped_in_part(held, 3, SECOND)
    former = over(held)
    for use in (lambda: SETTING.apply(former, 2, {1: 1}), lambda: former.create(FIRST, 0), lambda: former.drop(FIRST)):
        with pytest.raises(FencedError, match="epoch 2, but this driver has epoch 1"):
            use()
    former.drop(SECOND)
    assert held.keys() == []


@pytest.mark.parametrize("lease", [SECOND, None], ids=["with a lease", "without"])
@pytest.mark.parametrize("held", [SqliteMap], indirect=True)
def test_a_put_that_arrives_between_two_removals_leaves_nothing(held: Any, lease: Any) -> None:
    """The put of a driver that was fenced out: it hung, and is done when the drop has listed the keys."""

    class Late:
        def __getattr__(self, name: str) -> Any:
            method = getattr(held, name)
            if name != "multiRemove":
                return method

            def removes(keys: list[bytes]) -> None:
                done.append(held.multiPutIf([META, b"late"], [before, b"late"], META, before))
                method(keys)

            return removes

    done: list[bool] = []
    (before,) = held.multiGet([META])
    over(Late()).drop(lease)
    assert done and not any(done)
    assert held.keys() == []


def test_a_driver_that_writes_until_it_notices_the_drop_does_not_stop_it(held: Any) -> None:
    """`reset` does not wait for it."""
    txids = iter((2, 3, 4))

    class Written:
        def __getattr__(self, name: str) -> Any:
            method = getattr(held, name)
            if name not in ("multiPut", "multiPutIf"):
                return method

            def puts(*args: Any) -> Any:
                for txid in txids:
                    SETTING.apply(over(held), txid, {n: 1 for n in range(MANY)})
                    break
                return method(*args)

            return puts

    over(Written()).drop(SECOND)
    assert held.keys() == []


def test_a_state_that_cannot_be_dropped_stays_as_it_is() -> None:
    there = LeastMap({})
    store = over(there)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    SETTING.apply(store, 1, {1: 10})
    before = dict(there.entries)
    with pytest.raises(StateError, match=r"cannot be listed or dropped, .* lacks keys\(\) or multiRemove\(keys\)"):
        store.drop()
    assert there.entries == before


# --- in a topology ---------------------------------------------------------------------------------------------------


class Pulled:
    """A map that loses its connection before its second removal, once armed."""

    armed = False

    def __init__(self, file: str, identity: StateIdentity) -> None:
        self._held, self._removals = SqliteMap(file, identity), 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._held, name)
        if name != "multiRemove":
            return method

        def removes(keys: list[bytes]) -> None:
            self._removals += 1
            if Pulled.armed and self._removals == 2:
                raise OSError("connection lost")
            method(keys)

        return removes


def _pulled(folder: Path) -> Any:
    return BackingMapState.opaque(partial(Pulled, str(folder / "states.db")), most=2)


def _in_sqlite(folder: Path) -> Any:
    return SqliteMapState.opaque(folder / "states.db")


@pytest.mark.parametrize("how", ["dropState", "reset"])
@pytest.mark.parametrize("place", [_pulled, _in_sqlite], ids=["own", "sqlite"])
def test_a_start_refuses_what_an_interrupted_drop_left_until_it_is_dropped_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Callable[[Path], Any], how: str
) -> None:
    state, words = place(tmp_path), list("abcdef")
    counted(counting(fixed(words, words, words), state), checkpointLocation=tmp_path)

    def dropped() -> None:
        if how == "reset":
            counting(fixed(words), state).reset("wc", tmp_path)
        else:
            dropState("wc", "counts", tmp_path, factory=state)

    remove, removals = SqliteTable.multiRemove, iter(range(9))

    def pulled(table: SqliteTable, keys: list[bytes]) -> None:
        if next(removals) == 1:
            raise OSError("connection lost")
        remove(table, keys)

    with monkeypatch.context() as patching:
        patching.setattr(Pulled, "armed", True)
        patching.setattr(SqliteTable, "multiRemove", pulled)
        with pytest.raises(StateUnavailableError, match="connection lost"):
            dropped()
    with pytest.raises(StateLostError, match=r"is missing in .*, completely or .* dropState\(.*factory=.*"):
        counted(counting(fixed(words, words, words, ["a"]), state), checkpointLocation=tmp_path)
    dropped()
    counted(counting(fixed(words, words, words, ["a"]), state), checkpointLocation=tmp_path)
    with openState("wc", "counts", factory=state) as counts:
        anew = {word: 3 + (word == "a") for word in words}
        assert dict(counts.items()) == (anew if how == "reset" else {"a": 1})


def test_a_drop_that_failed_is_repeated_without_force(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = _pulled(tmp_path)
    counted(counting(fixed(list("abcdef")), state), checkpointLocation=tmp_path)
    with monkeypatch.context() as patching:
        patching.setattr(Pulled, "armed", True)
        with pytest.raises(StateUnavailableError, match="connection lost"):
            dropState("wc", "counts", tmp_path, factory=state)
    with pytest.raises(StateError):
        openState("wc", "counts", factory=state)["a"]
    dropState("wc", "counts", tmp_path, factory=state)
    with pytest.raises(StateError, match="no state 'counts'"):
        openState("wc", "counts", factory=state)
