"""A state that goes by event time and its watermarks begin, and are dropped, together: never one without the other."""

import functools
from pathlib import Path
from typing import Any

import pytest

from tests.access.small_topologies import fixed
from tests.compiler.window_runner import at
from tests.recovery.test_founding import Killed
from tests.state.backing.maps import SqliteMap
from tests.support.server import RedisServer
from trident import Count, TridentTopology, TumblingEventTimeWindow, dropState, listStates, openState
from trident.access import removal
from trident.errors import StateError, StateLostError, StateShapeError
from trident.log import RedisLog
from trident.log.redis_log import RedisTransactionLog
from trident.log.sqlite_log import SqliteLog
from trident.state import BackingMapState, MemoryMapState, RedisMapState
from trident.testing.local import start_local
from trident_state.redis.store import RedisStore

pytestmark = [
    pytest.mark.usefixtures("nothing_left_running"),
    pytest.mark.filterwarnings("ignore:state .* (is|are) new", "ignore:.*appendonly is off"),
]

FAR = 10**8
ROWS = [[(k, at(FAR), at(n))] for n, k in enumerate("abcde")]
"""One tuple a batch. By the field `wrong`, all are years ahead of what `at` says."""

VERBS = ["dedup", "window", "join"]
OWNED = {
    "dedup": ["own.watermark"],
    "window": ["own.watermark"],
    "join": ["own.left.watermark", "own.right.watermark"],
}


def topology(verb: str, field: str, batches: int, state: Any) -> TridentTopology:
    """Count by key what leaves the verb by event time, whose state is called ``own``."""
    made, fields = TridentTopology(), "k string, wrong timestamp, at timestamp"
    stream: Any = made.newStream("s", fixed(*ROWS[:batches], fields=fields))
    if verb == "dedup":
        out = stream.dropDuplicates("k", state, timestampField=field, within=10, name="own")
    elif verb == "window":
        window = TumblingEventTimeWindow(1, field)
        out = stream.groupBy("k").window(window, Count(), "c", stateFactory=state, name="own")
    else:
        other = made.newStream("o", fixed(*ROWS[:batches], fields=fields))
        out = stream.intervalJoin(
            other,
            "k",
            (0, 1),
            timestampField=field,
            outputFields="k, w, a, w2, a2",
            stateFactory=state,
            name="own",
        )
    out.groupBy("k").persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="passed")
    return made


class Place:
    """A kind of store and of log."""

    def __init__(self, store: str, log: str, folder: Path, server: RedisServer) -> None:
        own = BackingMapState.opaque(functools.partial(SqliteMap, str(folder / "own.db")))
        self.state: Any = {"memory": MemoryMapState.opaque(), "redis": RedisMapState.opaque(server.url), "own": own}[
            store
        ]
        self.its: dict[str, Any] = {"memory": {}, "redis": {"url": server.url}, "own": {"factory": own}}[store]
        self.at: dict[str, Any] = {"checkpointLocation": folder / "c"}
        if log == "redis":
            self.at["log"] = RedisLog(server.url, requireDurable=False)
        self.in_memory = store == "memory"

    def run(self, verb: str, field: str, batches: int) -> dict[str, int]:
        with start_local(topology(verb, field, batches, self.state), name="t", **self.at) as running:
            running.processAllAvailable(timeout=20)
            return dict(running.state("passed").items())

    def drop(self, state: str, **more: Any) -> None:
        dropState("t", state, **self.at, **self.its, **more)

    def names(self) -> set[str]:
        """Return the states that the log or the server knows."""
        found = listStates(**self.at, topology="t")
        if "url" in self.its:
            found += listStates(**self.its, topology="t")
        return {each.name for each in found}

    def watermark(self, name: str) -> Any:
        with openState("t", name, **(self.its or self.at)) as view:
            return view.get(())


@pytest.fixture(params=["memory", "redis", "own"])
def place(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> Place:
    return Place(request.param, "sqlite", tmp_path, shared_redis)


@pytest.fixture(params=["memory-sqlite", "redis-redis"])
def two_places(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> Place:
    return Place(*request.param.split("-"), tmp_path, shared_redis)


@pytest.fixture(autouse=True)
def fenced_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "_FENCED_SECONDS", 0.0)


LAST = {"dedup": "abcde", "window": "bcd", "join": "abcde"}
"""What has left after a first batch by `wrong` and four by `at`: the window of the last tuple is still open."""


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("log", ["sqlite", "redis"])
@pytest.mark.parametrize("store", ["memory", "redis", "own"])
def test_a_state_that_was_dropped_as_the_refusal_says_loses_no_tuple(
    verb: str, store: str, log: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    place = Place(store, log, tmp_path, shared_redis)
    place.run(verb, "wrong", 1)
    with pytest.raises(StateShapeError, match=r"^state 'own' has .*dropState\('t', 'own', "):
        place.run(verb, "at", 2)
    place.drop("own")
    assert place.names() == {"passed"}
    assert place.run(verb, "at", 5) == dict.fromkeys(LAST[verb], 1)


@pytest.mark.parametrize("verb", VERBS)
def test_a_watermark_alone_is_not_dropped(verb: str, place: Place) -> None:
    place.run(verb, "at", 2)
    before = place.names()
    for name in OWNED[verb]:
        with pytest.raises(
            StateError, match=rf"'{name}' is the watermark of state 'own' and .*; drop 'own', .*Nothing was changed"
        ):
            place.drop(name, force=True)
    if not place.in_memory:
        with pytest.raises(StateError, match="is the watermark of state 'own'"):
            dropState("t", OWNED[verb][0], **place.its, force=True)
    assert place.names() == before
    assert place.run(verb, "at", 5) == dict.fromkeys("abcd" if verb == "window" else "abcde", 1)


@pytest.mark.parametrize("verb", VERBS)
def test_without_a_log_the_watermarks_are_dropped_too(verb: str, tmp_path: Path, shared_redis: RedisServer) -> None:
    place = Place("redis", "sqlite", tmp_path, shared_redis)
    place.run(verb, "wrong", 1)
    dropState("t", "own", url=shared_redis.url, force=True)
    assert shared_redis.client.dbsize() == 0
    with pytest.raises(StateLostError, match=r"dropState\('t', 'own', .*force=True"):
        place.run(verb, "at", 2)
    place.drop("own", force=True)
    assert place.run(verb, "at", 5) == dict.fromkeys(LAST[verb], 1)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("death", ["drop 1", "drop 2", "forget", "forgotten"])
def test_a_death_within_a_drop_is_told_and_the_next_drop_ends_it(
    verb: str, death: str, two_places: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = two_places
    place.run(verb, "wrong", 1)
    log = SqliteLog if place.in_memory else RedisTransactionLog
    drop, forget, calls = RedisStore.drop, log.forget, [int(death[-1]) if death.startswith("drop") else 0]

    def drops(*args: Any) -> None:  # dies after the n-th state is gone from its store
        drop(*args)
        calls[0] -= 1
        if calls[0] == 0:
            raise Killed

    def forgets(*args: Any) -> None:
        if death == "forgotten":
            forget(*args)
        raise Killed

    with monkeypatch.context() as patching:
        patching.setattr(*((RedisStore, "drop", drops) if death.startswith("drop") else (log, "forget", forgets)))
        if place.in_memory and death.startswith("drop"):  # the log is all that is written
            place.drop("own")
        else:
            with pytest.raises(Killed):
                place.drop("own", force=True)
    if place.names() != {"passed"}:
        refusal = StateShapeError if place.in_memory else (StateShapeError, StateLostError)
        with pytest.raises(refusal, match=r"dropState\('t', 'own', "):
            place.run(verb, "at", 2)
        place.drop("own", force=True)
        assert place.names() == {"passed"}
    assert place.run(verb, "at", 5) == dict.fromkeys(LAST[verb], 1)


def as_before(place: Place, *states: str) -> None:
    """Drop states as former versions did: each alone."""
    location = removal.read_location(
        place.at["checkpointLocation"], place.at.get("log"), place.its.get("url"), "trident", place.its.get("factory")
    )
    log = location.open_log_to_write("t")
    removal._drop(location, log, "t", states, not place.in_memory, False)
    log.close()


def test_an_old_watermark_of_another_field_is_refused_and_the_way_out_works(two_places: Place) -> None:
    place = two_places
    place.run("dedup", "wrong", 1)
    as_before(place, "own")
    with pytest.raises(StateShapeError, match=r"'own.watermark' has .*dropState\('t', 'own', "):
        place.run("dedup", "at", 2)
    place.drop("own")
    assert place.run("dedup", "at", 5) == dict.fromkeys("abcde", 1)


@pytest.mark.parametrize("verb", VERBS)
def test_a_state_without_its_watermark_is_refused_and_the_way_out_works(verb: str, place: Place) -> None:
    place.run(verb, "wrong", 1)
    as_before(place, OWNED[verb][-1])
    with pytest.raises(
        StateLostError,
        match=rf"'{OWNED[verb][-1]}' is the watermark of state 'own' and was dropped without it.*dropState\('t', 'own'",
    ):
        place.run(verb, "wrong", 2)
    place.drop("own")
    assert place.run(verb, "at", 5) == dict.fromkeys(LAST[verb], 1)


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("named", ["owner", "watermark"])
def test_a_watermark_whose_state_is_gone_can_be_dropped_by_either_name(verb: str, named: str, place: Place) -> None:
    place.run(verb, "wrong", 1)
    as_before(place, "own")
    for name in ["own"] if named == "owner" else OWNED[verb]:
        place.drop(name)
    assert place.names() == {"passed"}
    assert place.run(verb, "at", 5) == dict.fromkeys(LAST[verb], 1)


def test_a_watermark_notices_another_field_where_its_state_is_gone(tmp_path: Path, shared_redis: RedisServer) -> None:
    place = Place("redis", "sqlite", tmp_path, shared_redis)
    place.run("dedup", "wrong", 1)
    shared_redis.client.delete(*shared_redis.client.keys("*t/own}*"))
    with pytest.raises(
        StateShapeError,
        match=r"'own.watermark' has .* by Watermark\(own, wrong\), .* by Watermark\(own, at\) "
        r"\(the watermark uses another field\)\. .*dropState\('t', 'own', ",
    ):
        place.run("dedup", "at", 2)
    place.drop("own", force=True)
    assert place.run("dedup", "at", 5) == dict.fromkeys("abcde", 1)


def test_a_state_that_is_only_called_like_a_watermark_is_none(place: Place) -> None:
    def counted(batches: int) -> None:
        made = TridentTopology()
        words = made.newStream("s", fixed(*[["a"]] * batches)).groupBy("word")
        for name in ("own", "own.watermark"):
            words.persistentAggregate(place.state, Count(), "n", name=name)
        with start_local(made, name="t", **place.at) as running:
            running.processAllAvailable(timeout=20)

    counted(1)
    place.drop("own")
    assert place.names() == {"own.watermark"}
    counted(2)
    place.drop("own.watermark")
    assert place.names() == {"own"}
