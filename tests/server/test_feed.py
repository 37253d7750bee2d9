"""The changes of a state: what a reader gets, from where, and what it is told where it cannot go on."""

import asyncio
import contextlib
import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest
from httpcore import ConnectionPool

from tests.server.conftest import Serving
from tests.server.counting import counting
from tests.server.feed_rounds import Rounds
from tests.support.server import RedisServer
from tests.support.soak import Soak
from tests.support.waiting import wait_until
from trident import AsyncDRPCClient, Count, DRPCClient, TridentTopology, dropState, openTopology
from trident.errors import (
    ChangesMissedError,
    SnapshotMovedError,
    StateEndedError,
    StateError,
    StateRecoveringError,
    TopologyError,
)
from trident.reads import state_changes
from trident.reads.state_changes import Position, StateChanges
from trident.server import state_feed
from trident.server.access_rules import Rights
from trident.server.http_server import Server, serve
from trident.spouts import FeederBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident_client.changes import Event, EventReader


@contextlib.contextmanager
def events(url: str, query: str = "", state: str = "counts", **headers: str) -> Iterator[Iterator[Event]]:
    """Read events as any program does."""
    with httpx.stream("GET", f"{url}/state/{state}/changes{query}", headers=headers, timeout=10) as response:
        assert response.status_code == 200, response.read()
        assert response.headers["content-type"].startswith("text/event-stream")
        reader = EventReader()
        yield (event for piece in response.iter_bytes() for event in reader.take(piece))


def changed(told: Iterator[Event]) -> dict[str, Any]:
    """Return the next event that is no position."""
    event = next(event for event in told if event.kind != "position")
    return {"kind": event.kind, "id": event.id, **json.loads(event.data)}


def served(checkpoint: Path, factory: StateFactory | None = None) -> contextlib.ExitStack:
    """Serve the topology without a driver; the stack has the `server`."""
    stack = contextlib.ExitStack()
    opened = stack.enter_context(openTopology(counting(factory)[0], name="wc", checkpointLocation=checkpoint))
    server: Server = stack.enter_context(serve(opened, 0, "127.0.0.1", None, (), None, insecure=False))
    stack.server = server  # type: ignore[attr-defined]
    return stack


def test_a_batch_is_an_event_with_the_new_values_of_what_it_changed(serving: Serving) -> None:
    with events(serving.url) as told:
        first = next(told)
        assert first.kind == "position" and json.loads(first.data)["txid"] == 1
        serving.feed("dog", "cow")
        change = changed(told)
    assert (change["kind"], change["after"], change["txid"], change["last"]) == ("change", 1, 2, True)
    assert (change["fields"], sorted(change["rows"]), change["removed"]) == (
        ["word", "count"],
        [["cow", 1], ["dog", 3]],
        [],
    )
    assert change["committedAt"] is not None and change["id"].endswith("-2")


def test_a_reader_that_comes_back_goes_on_where_it_was(serving: Serving) -> None:
    with events(serving.url) as told:
        serving.feed("dog")
        place = changed(told)["id"]
    serving.feed("cat")
    serving.feed("cow")
    for came_back in ({"query": f"?after={place}"}, {"last-event-id": place}, {"query": "?after=2"}):
        with events(serving.url, **came_back) as told:
            change = changed(told)
            assert (change["after"], change["txid"]) in ((2, 3), (2, 4))
            rows = change["rows"] if change["txid"] == 4 else change["rows"] + changed(told)["rows"]
        assert sorted(rows) == [["cat", 2], ["cow", 1]]


def counting_but_nothing() -> tuple[TridentTopology, FeederBatchSpout]:
    """Return a count of words in which the word "nothing" changes nothing, and its source."""
    topology, feeder = TridentTopology(), FeederBatchSpout("word string")
    words = topology.newStream("words", feeder).filter("word", lambda word: word != "nothing")
    words.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology, feeder


def test_batches_that_change_nothing_move_the_place(tmp_path: Path) -> None:
    topology, feeder = counting_but_nothing()
    with (
        topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running,
        running.serve() as server,
        events(server.url) as told,
    ):
        next(told)
        feeder.feed([("nothing",)])
        running.processAllAvailable()
        moved = next(told)
        assert (moved.kind, json.loads(moved.data)["txid"]) == ("position", 1)
        feeder.feed([("dog",)])
        running.processAllAvailable()
        assert changed(told)["after"] == 1


def test_a_change_begins_at_the_last_position_that_its_reader_got(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Batches that change nothing may go without an event. A reader must not take them for a change that it lacks."""
    read, began = StateChanges.after, list[int]()
    monkeypatch.setattr(StateChanges, "after", lambda self, place: began.append(place.txid) or read(self, place))
    topology, feeder = counting_but_nothing()
    with (
        topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running,
        running.serve() as server,
        DRPCClient(server.url) as client,
    ):
        feed = client.changes("counts", after=0)
        for after, word in ((0, "dog"), (1, "nothing"), (1, "cow"), (3, "dog")):
            feeder.feed([(word,)])
            running.processAllAvailable()
            if word == "nothing":
                wait_until(lambda: 1 in began)
                continue
            change = next(feed)
            assert (change.after, [row.word for row in change.rows]) == (after, [word])
            monkeypatch.setattr(state_feed, "_POSITION_SECONDS", 600.0)


def test_a_snapshot_is_as_of_a_batch_that_all_states_of_the_group_have(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topology, feeder = counting(RedisMapState.opaque(shared_redis.url))
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        for words in (["dog", "cat"], ["dog", "cow"]):
            feeder.feed([(word,) for word in words])
            running.processAllAvailable()
        # As if another state of the group lacked the second batch.
        monkeypatch.setattr(running._read_source, "committed", lambda group: 1)
        values: dict[str, int] = {}
        for part in running.changes("counts").snapshot():
            values |= {row["word"]: row["count"] for row in part.entries.to_pylist()}
            for gone in part.removed.to_pylist():
                values.pop(gone["word"], None)
        assert part.last and part.txid == 1 and values == {"dog": 1, "cat": 1}


def test_a_snapshot_has_a_key_that_only_a_batch_removed_that_is_not_committed(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its page has no entries, and is as of the later batch all the same."""
    topology, feeder = TridentTopology(), FeederBatchSpout("word string, op string")
    changes = topology.newStream("words", feeder).asChanges("op", {"c": "insert", "d": "delete"})
    changes.groupBy("word").persistentAggregate(RedisMapState.opaque(shared_redis.url), Count(), "n", name="counts")
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        for kind in ("c", "d"):
            feeder.feed([("dog", kind)])
            running.processAllAvailable()
        # As if another state of the group lacked the second batch.
        monkeypatch.setattr(running._read_source, "committed", lambda group: 1)
        parts = list(running.changes("counts").snapshot())
        assert [row for part in parts for row in part.entries.to_pylist()] == [{"word": "dog", "n": 1}]
        assert parts[-1].last and parts[-1].txid == 1


def test_a_snapshot_waits_for_a_server_that_fell_back(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Keys that no batch changed since would keep their earlier values."""
    topology, feeder = counting(RedisMapState.opaque(shared_redis.url))
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        for words in (["dog", "cat"], ["dog", "cow"]):
            feeder.feed([(word,) for word in words])
            running.processAllAvailable()
        # As if the server had been at batch 3 before.
        monkeypatch.setattr(running._read_source, "committed", lambda group: 3)
        with pytest.raises(StateRecoveringError, match="is at txid 2, so a read as of 3 has to wait"):
            next(running.changes("counts").snapshot())


def test_a_snapshot_comes_first_and_changes_follow_without_a_gap(serving: Serving) -> None:
    with serving.client() as client:
        changes = client.changes("counts", snapshot=True)
        whole = next(changes)
        assert whole.snapshot and whole.txid == 1 and dict(map(tuple, whole.rows)) == {"dog": 2, "cat": 1}
        assert whole.rows[0].asDict().keys() == {"word", "count"}
        serving.feed("cow")
        change = next(changes)
        assert (change.snapshot, change.after, change.txid, list(change.rows)) == (False, 1, 2, [("cow", 1)])
        assert change.rows.toArrow().schema.field("count").type == pa.int64() and change.committedAt is not None
        assert changes.position == change.position


def test_a_snapshot_that_begins_again_has_nothing_of_its_first_try(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, tries = state_changes.StateChanges.snapshot, list[int]()

    def hindered(changes: state_changes.StateChanges) -> Iterator[state_changes.Change]:
        tries.append(1)
        if len(tries) > 1:
            yield from whole(changes)
            return
        ghost = pa.table({"word": ["ghost"], "count": pa.array([1], pa.int64())})
        yield state_changes.Change(0, 1, ghost, ghost.select(["word"]).slice(0, 0), last=False, snapshot=True)
        raise SnapshotMovedError("the writer is faster")

    monkeypatch.setattr(state_changes.StateChanges, "snapshot", hindered)
    with serving.client() as client:
        change = next(client.changes("counts", snapshot=True))
    assert len(tries) == 2 and dict(map(tuple, change.rows)) == {"dog": 2, "cat": 1}


def test_many_keys_come_in_parts_and_are_one_change(serving: Serving) -> None:
    words = [f"word {number}" for number in range(25_000)]
    with serving.client() as client:
        changes = client.changes("counts", after=1)
        serving.feed(*words)
        change = next(changes)
        assert sorted(row.word for row in change.rows) == sorted(words)
        assert len(next(client.changes("counts", snapshot=True)).rows) == 25_002
    with events(serving.url, "?after=1") as told:
        parts = [changed(told) for _ in range(3)]
    assert [part["last"] for part in parts] == [False, False, True]
    assert [part["id"] is None for part in parts] == [True, True, False]


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_server_without_a_driver_feeds_them_too(kind: str, shared_redis: RedisServer, tmp_path: Path) -> None:
    factory: StateFactory = MemoryMapState.opaque() if kind == "memory" else RedisMapState.opaque(shared_redis.url)
    topology, feeder = counting(factory)
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog",), ("cat",)])
        running.processAllAvailable()
        with served(tmp_path, factory) as stack, DRPCClient(stack.server.url) as client:  # type: ignore[attr-defined]
            changes = client.changes("counts", snapshot=True)
            assert dict(map(tuple, next(changes).rows)) == {"dog": 1, "cat": 1}
            feeder.feed([("dog",)])
            running.processAllAvailable()
            change = next(changes)
            assert (change.after, change.txid, list(change.rows)) == (1, 2, [("dog", 2)])


def test_redis_without_a_log_is_refused(shared_redis: RedisServer, tmp_path: Path) -> None:
    factory = RedisMapState.opaque(shared_redis.url)
    topology, _ = counting(factory)
    with (
        topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path),
        openTopology(topology, name="wc") as opened,
        pytest.raises(StateError, match="only the topology's log says what a batch changed"),
    ):
        opened.changes("counts")


def test_what_the_log_no_longer_keeps_is_told_and_made_up_for(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving.feed("cow")
    log = serving.running._context.log
    log.trim(serving.running._context.begun.lease, "words", 2, 0, 0)
    with events(serving.url, "?after=1") as told:
        missed, snapshot = changed(told), changed(told)
    assert (missed["kind"], missed["from"], missed["to"]) == ("missed", 2, 2)
    assert "needs earlier ones: start again with a snapshot" in missed["message"]
    assert (snapshot["kind"], snapshot["txid"], len(snapshot["rows"])) == ("snapshot", 2, 3)
    with serving.client() as client, pytest.raises(ChangesMissedError, match="keeps only the batches after txid 2"):
        next(client.changes("counts", after=1))


def test_a_state_that_is_dropped_ends_the_feed(shared_redis: RedisServer, tmp_path: Path) -> None:
    factory = RedisMapState.opaque(shared_redis.url)
    topology, feeder = counting(factory)

    def run(*words: str) -> None:
        with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
            feeder.feed([(word,) for word in words])
            running.processAllAvailable()

    run("dog", "cat")
    with served(tmp_path, factory) as stack, DRPCClient(stack.server.url) as client:  # type: ignore[attr-defined]
        changes = client.changes("counts", snapshot=True)
        place = next(changes).position
        dropState("wc", "counts", tmp_path, url=shared_redis.url)
        run("cow")
        with pytest.raises(StateEndedError):
            next(changes)
        with pytest.raises(StateEndedError, match="from before that: the reader's values are"):
            next(client.changes("counts", after=place))
        with pytest.raises(StateEndedError, match="was dropped while it was open.*: open it again"):
            next(client.changes("counts", snapshot=True))
    with served(tmp_path, factory) as stack, DRPCClient(stack.server.url) as client:  # type: ignore[attr-defined]
        assert list(next(client.changes("counts", snapshot=True)).rows) == [("cow", 1)]


def test_a_topology_that_is_reset_ends_the_feed(shared_redis: RedisServer, tmp_path: Path) -> None:
    factory = RedisMapState.opaque(shared_redis.url)
    topology, feeder = counting(factory)

    def run(*words: str) -> None:
        with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
            for word in words:
                feeder.feed([(word,)])
                running.processAllAvailable()

    run("dog", "cat")
    with served(tmp_path, factory) as stack, DRPCClient(stack.server.url) as client:  # type: ignore[attr-defined]
        changes = client.changes("counts", snapshot=True)
        assert next(changes).txid == 2
        topology.reset("wc", tmp_path)
        run("cow", "cow", "cow")  # as far as the former life, and further
        with pytest.raises(StateEndedError):
            next(changes)


def test_the_keys_are_all_that_changed_up_to_the_read(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is committed between the look at the log and the read of the values is part of the change."""
    changes, place = serving.running.changes("counts"), Position(None, 1)
    place = changes.begin(place)
    serving.feed("dog")
    read = state_changes.read_consistently
    fed: list[str] = []

    def later(*args: Any, **named: Any) -> Any:
        if not fed:
            fed.append("cow")
            serving.feed("cow")
        return read(*args, **named)

    monkeypatch.setattr(state_changes, "read_consistently", later)
    (change,) = changes.after(place)
    assert change.txid == 3 and sorted(change.entries.column("word").to_pylist()) == ["cow", "dog"]


def test_keys_that_are_read_piece_by_piece_end_as_of_one_batch(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that nothing holds back is faster than many keys can be read; what it changes meanwhile follows."""
    monkeypatch.setattr(state_changes, "FREE_ROWS", 2)
    changes = serving.running.changes("counts")
    place = changes.begin(None)
    serving.feed("ant", "bee", "cow")
    read, calls = state_changes.read_consistently, list[int]()

    def hindered(*args: Any, **named: Any) -> Any:
        calls.append(len(calls))
        if len(calls) == 1:
            raise SnapshotMovedError("the writer is faster")
        if len(calls) == 3:
            serving.feed("ant", "dog")  # "ant" was read already
        return read(*args, **named)

    monkeypatch.setattr(state_changes, "read_consistently", hindered)
    values: dict[str, int] = {}
    parts = list(changes.after(place))
    for part in parts:
        values |= {row["word"]: row["count"] for row in part.entries.to_pylist()}
    assert [part.last for part in parts] == [False, False, True] and parts[-1].txid == 3
    assert values == {"ant": 2, "bee": 1, "cow": 1, "dog": 3}


def test_a_drop_between_look_and_read_is_no_change(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = serving.running.changes("counts")
    place = changes.begin(None)
    serving.feed("dog")
    births = serving.running._context.log.births
    lives = iter([births(), births()])
    anew = {"counts": state_changes.Birth("words", 1, 9, True)}
    monkeypatch.setattr(serving.running._context.log, "births", lambda: next(lives, anew))
    next(lives)
    with pytest.raises(StateEndedError, match="was recreated after txid 1"):
        list(changes.after(place))


def test_states_whose_changes_cannot_be_told(tmp_path: Path) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FeederBatchSpout("word string")).groupBy("word")
    words.persistentAggregate(MemoryMapState.nonTransactional(), Count(), "n", name="loose")
    words.persistentAggregate(MemoryMapState.opaque(ttlSecs="1 hour"), Count(), "n", name="passing")
    with (
        topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running,
        running.serve() as server,
        DRPCClient(server.url) as client,
    ):
        with pytest.raises(StateError, match="'loose' is nonTransactional: its values have no txid"):
            next(client.changes("loose"))
        with pytest.raises(StateError, match="'passing' has ttlSecs: its values expire without"):
            next(client.changes("passing"))


@pytest.mark.parametrize(
    ("query", "status", "message"),
    [
        ("?after=soon", 400, "after='soon': expected a txid, or the id of an event of this feed"),
        ("?from=1", 400, "unknown: from; expected after, snapshot, rows"),
        ("?after=1&after=2", 400, "after is given 2 times"),
        ("?snapshot=1", 400, "snapshot='1': expected true or false"),
        ("?rows=csv", 400, "rows='csv': expected json or arrow"),
        ("?after=99", 410, "is at txid 1: its log is an older copy, or a new log"),
        ("?after=abc-1-0-1", 410, "is from before that: the reader's values are"),
    ],
)
def test_a_request_that_is_wrong(serving: Serving, query: str, status: int, message: str) -> None:
    told = serving.get(f"/state/counts/changes{query}")
    assert told.status_code == status and message in told.json()["error"]["message"]


def test_a_call_that_is_wrong(serving: Serving) -> None:
    with serving.client() as client:
        with pytest.raises(TopologyError, match="give either after= or snapshot=True"):
            client.changes("counts", after=1, snapshot=True)
        with pytest.raises(TopologyError, match="after=1.5: expected a txid, or the position of a change"):
            client.changes("counts", after=1.5)  # type: ignore[arg-type]


def test_rights_readers_and_metrics(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    from trident.server import state_feed

    monkeypatch.setattr(state_feed, "READERS", 1)
    tokens = {"0123456789abcdef": Rights(states=["counts"]), "fedcba9876543210": Rights(functions=["count"])}
    with serving.running.serve(token="aaaaaaaaaaaaaaaaaa", tokens=tokens) as server:
        allowed, other = ({"authorization": f"Bearer {token}"} for token in tokens)
        assert httpx.get(f"{server.url}/state/counts/changes", headers=other).status_code == 403
        with events(server.url, **allowed) as told:
            next(told)
            refused = httpx.get(f"{server.url}/state/counts/changes", headers=allowed)
            assert (refused.status_code, refused.json()["error"]["type"]) == (503, "TooManyReaders")
            serving.feed("dog")
            changed(told)
            every = {"authorization": "Bearer aaaaaaaaaaaaaaaaaa"}
            metrics = httpx.get(f"{server.url}/metrics", headers=every).text
            assert 'trident_feed_readers{state="counts"} 1.0' in metrics
            assert 'trident_feed_rows_total{state="counts"} 1.0' in metrics
        wait_until(
            lambda: 'trident_feed_readers{state="counts"} 0.0' in httpx.get(f"{server.url}/metrics", headers=every).text
        )


def test_a_feed_that_the_collector_ends_within_a_request_holds_up_nothing(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    def collects(pool: Any) -> Any:
        gc.collect()
        return assign(pool)

    assign = ConnectionPool._assign_requests_to_connections
    with serving.client() as client:
        kept: list[Any] = [client.changes("counts", snapshot=True)]
        next(kept[0])
        kept.append(kept)  # so that only the collector ends the feed
        del kept
        monkeypatch.setattr(ConnectionPool, "_assign_requests_to_connections", collects)
        asked = threading.Thread(target=client.get, args=("counts", "dog"), daemon=True)
        asked.start()
        asked.join(30)
        assert not asked.is_alive()


def test_a_client_that_is_closed_ends_its_feeds(serving: Serving) -> None:
    with serving.client() as client:
        feed = client.changes("counts", snapshot=True)
        next(feed)
    with pytest.raises(RuntimeError, match="client has been closed"):
        next(feed)


def test_a_client_of_asyncio_goes_on_over_a_restart_of_its_server(serving: Serving) -> None:
    first = serving.running.serve()
    port = int(first.url.rpartition(":")[2])
    again = threading.Event()

    async def two() -> list[tuple[int, list[Any]]]:
        found = []
        async with AsyncDRPCClient(first.url) as client:
            async for change in client.changes("counts", after=1):
                found.append((change.txid, list(change.rows)))
                if len(found) == 2:
                    return found
                await asyncio.to_thread(first.stop)
                serving.feed("cow")
                await asyncio.to_thread(again.set)
        return found

    def restart() -> None:
        again.wait(20)
        serving.running.serve(port)

    restarting = threading.Thread(target=restart)
    restarting.start()
    serving.feed("dog")
    assert asyncio.run(two()) == [(2, [("dog", 3)]), (3, [("cow", 1)])]
    restarting.join()


def test_what_killed_readers_fold_is_the_state(shared_redis: RedisServer, tmp_path: Path) -> None:
    counts = Rounds(shared_redis.url, tmp_path, 1).run(1)
    assert counts["rounds"] == 1 and counts["changes"] > 0


@pytest.mark.soak(weight=2)
def test_what_killed_readers_fold_is_the_state_for_long(soak: Soak, shared_redis: RedisServer, tmp_path: Path) -> None:
    total: Any = None
    for number, chance in enumerate(soak.draws(20)):
        shared_redis.client.flushall()
        folder = tmp_path / str(number)
        folder.mkdir()
        counts = Rounds(shared_redis.url, folder, chance.randrange(1 << 30)).run(5)
        total = counts if total is None else total + counts
    soak.tell(f"{dict(total or {})}")
