"""What somebody's map may do wrong, what it may leave out, and what is told of it before the start."""

import functools
import pickle
from pathlib import Path
from typing import Any

import pytest

from tests.state.backing.maps import GUIDE, SHOWN, BackingStorage, LeastMap, PlainMap, SqliteMap
from tests.support.pages import blocks_of
from trident import Count, TridentTopology
from trident.base.errors import GuaranteeError, StateError, StateOwnedError, StateShapeError, UserFunctionError
from trident.spouts import FixedBatchSpout
from trident.state import BackingMapState, StateIdentity
from trident.testing.contracts.stores import FIRST, Setting
from trident.testing.local import start_local
from trident_state.backing import BackingStore
from trident_state.state_shape import StateKind

SETTING = Setting(storage=None)  # type: ignore[arg-type]


def over(held: Any) -> BackingStore:
    return BackingStore(SETTING.identity, SETTING.shape, SETTING.kind, lambda: held)


def typed(identity: StateIdentity) -> LeastMap:
    return LeastMap({})


def typed_fenced(identity: StateIdentity) -> SqliteMap:
    return SqliteMap("file", identity)


def untyped(identity):  # type: ignore[no-untyped-def]
    return SqliteMap("file", identity)


# --- the guide's map ---------------------------------------------------------------------------------------------


def test_the_guides_map_has_less_than_forty_lines() -> None:
    assert SHOWN in blocks_of(GUIDE)
    lines = [line for line in SHOWN.splitlines() if line.strip()]
    assert len(lines) < 40


def test_a_topology_over_the_guides_map_goes_on_where_it_stopped(tmp_path: Path) -> None:
    own = BackingMapState.opaque(functools.partial(SqliteMap, str(tmp_path / "states.db")))
    batches = [[("the",), ("dog",)], [("the",), ("cat",)], [("the",)]]

    def topology(rows: Any) -> TridentTopology:
        made = TridentTopology()
        words = made.newStream("words", FixedBatchSpout("word string", rows))
        words.groupBy("word").persistentAggregate(own, Count(), "count", name="counts")
        words.persistentAggregate(own, Count(), "n", name="total")
        return made

    for upto in (2, 3):
        with start_local(
            topology(batches[:upto]), name="own", checkpointLocation=tmp_path / "ckpt", requireExactlyOnce=True
        ) as running:
            running.processAllAvailable()
            counts = dict(running.state("counts").items())
            total = running.state("total").value
    assert counts == {"the": 3, "dog": 1, "cat": 1}
    assert total == 5
    topology(batches).reset("own", tmp_path / "ckpt")
    for name in ("counts", "total"):
        assert SqliteMap(str(tmp_path / "states.db"), StateIdentity("own", name, "")).keys() == []


# --- what is told before the start -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "fenced"),
    [
        (SqliteMap, True),
        (functools.partial(SqliteMap, "file"), True),
        (functools.partial(functools.partial(PlainMap), "file"), False),
        (LeastMap, False),
        (typed, False),
        (typed_fenced, True),
        (untyped, False),
        (lambda identity: SqliteMap("file", identity), False),
    ],
)
def test_whether_a_map_puts_on_a_condition_is_known_where_its_class_is(make: Any, fenced: bool) -> None:
    assert BackingMapState.opaque(make).fenced is fenced


def test_a_plain_map_is_refused_where_exactly_once_is_required_and_explained_where_not(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [[("dog",)]]))
    plain = BackingMapState.opaque(functools.partial(PlainMap, "file"))
    words.groupBy("word").persistentAggregate(plain, Count(), "count", name="counts")
    with pytest.raises(GuaranteeError, match="only while one driver lives and the store loses nothing.*BackingMap"):
        start_local(topology, name="plain", checkpointLocation=tmp_path, requireExactlyOnce=True)
    topology.explain()
    assert "exactly-once, only while one driver lives and the store loses nothing" in capsys.readouterr().out


def test_a_factory_is_plain_data() -> None:
    state = BackingMapState.transactional(functools.partial(PlainMap, "file"), values="json", most=5)
    assert pickle.loads(pickle.dumps(state)).values == "json"  # noqa: S301
    assert repr(state) == "BackingMapState.transactional(PlainMap, values='json', most=5)"
    assert repr(BackingMapState.nonTransactional(typed)) == "BackingMapState.nonTransactional(typed)"
    assert state.kind is StateKind.TRANSACTIONAL


@pytest.mark.parametrize(
    ("options", "message"),
    [({"values": "xml"}, "expected 'packed' or 'json'"), ({"most": 0}, "1 or more"), ({"most": 1.5}, "1 or more")],
)
def test_options_that_mean_nothing_are_refused(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BackingMapState.opaque(typed, **options)


def test_a_map_in_the_place_of_its_maker_is_refused() -> None:
    with pytest.raises(TypeError, match="LeastMap.*expected a class or function, such as"):
        BackingMapState.opaque(LeastMap({}))  # type: ignore[arg-type]


# --- what it may leave out ---------------------------------------------------------------------------------------


def test_two_methods_are_enough_for_all_but_scans_and_drops() -> None:
    store = over(LeastMap({}))
    assert store.report().absent
    store.create(FIRST, 0)
    store.acquire(FIRST)
    SETTING.apply(store, 1, {1: 10})
    assert SETTING.read(store, [1, 2], 1) == [10, None]
    for asking in (lambda: list(store.scan(1)), store.drop):
        with pytest.raises(
            StateError, match=r"'counts': this state cannot be listed or dropped.*LeastMap \(maps\.py:\d+\)"
        ):
            asking()
    assert SETTING.read(store, [1, 2], 1) == [10, None]
    store.close()


# --- what it may do wrong ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("gives", "message"),
    [
        ([b"x", None], r"returned 2 values for 1 keys; expected a list of 1"),
        (None, r"returned a NoneType for 1 keys"),
        (["text"], r"returned a str among its values; expected bytes or None"),
    ],
)
def test_answers_that_are_none_are_refused_and_name_the_method(gives: Any, message: str) -> None:
    class Wrong(LeastMap):
        def multiGet(self, keys: list[bytes]) -> Any:
            return gives

    with pytest.raises(UserFunctionError, match=rf"state 'counts': Wrong\.multiGet \(test_maps\.py:\d+\) {message}"):
        over(Wrong({})).report()


def test_a_conditional_put_that_answers_nothing_is_refused() -> None:
    class Wrong(LeastMap):
        def multiPutIf(self, keys: Any, values: Any, guard: Any, expected: Any) -> Any:
            self.multiPut(keys, values)

    with pytest.raises(
        UserFunctionError, match=r"multiPutIf \(test_maps\.py:\d+\) returned a NoneType; expected True or False"
    ):
        over(Wrong({})).create(FIRST, 0)


def test_a_mistake_in_a_map_stops_and_is_not_repeated() -> None:
    class Wrong(LeastMap):
        def multiPut(self, keys: list[bytes], values: list[bytes]) -> None:
            raise KeyError("oops")

    with pytest.raises(UserFunctionError, match=r"Wrong\.multiPut \(test_maps\.py:\d+\) raised KeyError: 'oops'"):
        over(Wrong({})).create(FIRST, 0)


def test_what_is_no_map_is_refused_when_it_is_made() -> None:
    with pytest.raises(
        UserFunctionError, match=r"<lambda> \(test_maps\.py:\d+\) returned a dict, which has no multiGet"
    ):
        over({}).report()


# --- whose it is -------------------------------------------------------------------------------------------------


def test_one_map_for_two_states_is_refused() -> None:
    entries: dict[bytes, bytes] = {}
    mine = over(LeastMap(entries))
    mine.create(FIRST, 0)
    other = SETTING.named("others")
    theirs = BackingStore(other.identity, other.shape, other.kind, lambda: LeastMap(entries))
    for touch in (lambda: theirs.create(FIRST, 0), lambda: theirs.acquire(FIRST), theirs.drop):
        with pytest.raises(StateOwnedError, match="state 'others': its map holds state 'counts' of topology"):
            touch()
    assert mine.report().identity == SETTING.identity


def test_entries_without_an_owner_are_refused(tmp_path: Path) -> None:
    storage = BackingStorage(tmp_path)
    held = SqliteMap(str(tmp_path / "states.db"), SETTING.identity)
    held.multiPut([b"sdog"], [b"junk"])
    store = storage.open(SETTING.identity, SETTING.shape, SETTING.kind)
    for touch in (store.report, lambda: store.create(FIRST, 0)):
        with pytest.raises(StateOwnedError, match="its map has entries that belong to no state;"):
            touch()
    assert held.keys() == [b"sdog"]
    storage.close()
    held._db.close()


def test_another_form_of_values_is_refused(tmp_path: Path) -> None:
    storage = BackingStorage(tmp_path)
    storage.open(SETTING.identity, SETTING.shape, SETTING.kind).create(FIRST, 0)
    json = BackingStorage(tmp_path, options={"values": "json"})
    with pytest.raises(StateShapeError, match="created with values=packed, but is declared with values=json"):
        json.open(SETTING.identity, SETTING.shape, SETTING.kind).report()
    storage.close()
    json.close()
