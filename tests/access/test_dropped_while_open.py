"""A reader that stays open reads the incarnation of a state that it opened, over restarts and heals, and no other."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.state.backing.maps import SqliteMap
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import MapGet, Sum, TridentTopology, dropState, openState, openTopology
from trident.errors import SnapshotMovedError, StateEndedError, StateRecoveringError, StateShapeError
from trident.reads.key_tables import key_table
from trident.spouts import FeederBatchSpout
from trident.state import BackingMapState, MemoryMapState, RedisMapState, SqliteMapState, StateFactory
from trident.testing.local import start_local

pytestmark = pytest.mark.filterwarnings("ignore:state .totals. is new")

BOTH_SHAPES = pytest.mark.parametrize("value", ["long", "double"])
BOTH_ENDS = pytest.mark.parametrize("how", ["drop", "reset"])


class Written:
    """The state ``totals`` of the topology ``writer`` in one store, and how its life ends."""

    def __init__(self, place: str, folder: Path, server: RedisServer, kind: str = "opaque", **options: Any) -> None:
        self.checkpoint = folder / "writer"
        if place == "redis":
            self.factory: StateFactory = getattr(RedisMapState, kind)(server.url, **options)
            self.where: dict[str, Any] = {"url": server.url}
            return
        if place == "sqlite":
            self.factory = getattr(SqliteMapState, kind)(folder / "states.db")
        else:
            made = functools.partial(SqliteMap, str(folder / "map.db"))
            self.factory = getattr(BackingMapState, kind)(made)
        self.where = {"factory": self.factory}

    def topology(self, value: str = "long") -> TridentTopology:
        topology = TridentTopology()
        self._spout = FeederBatchSpout(f"k string, v {value}")
        keyed = topology.newStream("s", self._spout).groupBy("k")
        keyed.persistentAggregate(self.factory, "v", Sum(), "v", name="totals")
        return topology

    def start(self, value: str = "long") -> Any:
        return start_local(self.topology(value), name="writer", checkpointLocation=self.checkpoint)

    def feed(self, *rows: tuple[str, int]) -> None:
        """One batch."""
        self._spout.feed(list(rows), wait=True, timeout=20)

    def write(self, value: str = "long", amounts: tuple[int, ...] = (5, 6, 1)) -> None:
        with self.start(value):
            for amount in amounts:
                self.feed(("a", amount))

    def end(self, how: str) -> None:
        if how == "drop":
            dropState("writer", "totals", self.checkpoint, **self.where)
        else:
            self.topology().reset("writer", self.checkpoint)

    def open(self, **options: Any) -> Any:
        return openState("writer", "totals", **self.where, **options)


@pytest.fixture(params=["redis", "own", "sqlite"])
def written(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> Written:
    return Written(request.param, tmp_path, shared_redis)


def refused(read: Callable[[], object]) -> None:
    """A read says that the state is another one now."""
    with pytest.raises(
        StateEndedError,
        match=r"'totals' of topology 'writer' was dropped (or reset )?while it was open.*: open it again",
    ):
        read()


@BOTH_SHAPES
@BOTH_ENDS
def test_an_opened_state_reads_nothing_of_another_state_of_its_name(written: Written, how: str, value: str) -> None:
    written.write()
    with written.open() as totals, written.open(isolation="latest") as latest:
        assert totals["a"] == latest["a"] == 12
        written.end(how)
        with pytest.raises(StateRecoveringError, match="a part of it is missing.* unless it was dropped"):
            totals.get("a")
        with written.start(value) as running:
            for _ in range(4):
                written.feed(("a", 1), ("b", 2))
                for read in (totals, latest):
                    refused(functools.partial(read.get, "a"))
                    refused(functools.partial(dict, read))
                    refused(read.toArrow)
            assert running.state("totals")["b"] == 8
        assert "was dropped" in repr(totals)
    with written.open() as totals:
        assert dict(totals) == {"a": 4, "b": 8}


@BOTH_SHAPES
@BOTH_ENDS
def test_an_opened_topology_reads_nothing_of_another_state_of_its_name(written: Written, how: str, value: str) -> None:
    topology = written.topology()
    written.write()
    with openTopology(topology, name="writer") as opened:
        totals = opened.state("totals")
        assert (totals["a"], opened.asOfTxid) == (12, {"s": 3})
        written.end(how)
        written.write(value)
        refused(lambda: totals.get("a"))
        refused(totals.toArrow)
        refused(lambda: opened.asOfTxid)


def reading(written: Written, spout: Any) -> TridentTopology:
    topology = TridentTopology()
    given = topology.newStaticState(
        written.factory, keyFields="k string", valueType="long", name="totals", topology="writer"
    )
    found = topology.newStream("words", spout).stateQuery(given, "k", MapGet(), "v").groupBy("k")
    found.persistentAggregate(MemoryMapState.opaque(), "v", Sum(), "sum", name="found")
    topology.newDRPCStream("ask", "k string").stateQuery(given, "k", MapGet(), "v")
    return topology


@pytest.mark.parametrize("place", ["redis", "own", "sqlite"])
@pytest.mark.parametrize("kind", ["opaque", "nonTransactional"])
@BOTH_SHAPES
@BOTH_ENDS
def test_a_topology_that_reads_a_state_stops_and_takes_nothing_of_another_state_of_its_name(
    place: str, kind: str, how: str, value: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    written, spout = Written(place, tmp_path, shared_redis, kind), FeederBatchSpout("k string")
    written.write()
    given: dict[str, Any] = {"name": "reader", "checkpointLocation": tmp_path / "reader"}
    running = start_local(reading(written, spout), **given)
    spout.feed([("a",)], wait=True, timeout=20)
    written.end(how)
    with pytest.raises(StateRecoveringError, match="is missing.*unless the state was dropped"):
        running.drpc.execute("ask", "a")
    written.write(value, (7,))
    refused(lambda: running.drpc.execute("ask", "a"))
    spout.feed([("a",)])
    refused(lambda: running.awaitTermination(20))
    running.stop()
    again = reading(written, spout)
    if value == "double":
        with pytest.raises(StateShapeError, match=r"'totals' of topology 'writer' holds .* double"):
            start_local(again, **given)
        return
    with start_local(again, **given) as running:
        running.processAllAvailable(timeout=20)
        assert running.state("found")["a"] == 12 + 7, "the batch that waited found what is there now"


def test_a_reader_goes_on_over_restarts_from_before_the_first_batch(written: Written) -> None:
    with written.start():
        totals = written.open()
        assert totals.get("a") is None
        written.feed(("a", 1))
        assert totals["a"] == 1
    with totals, written.start():
        assert totals["a"] == 1
        written.feed(("a", 1))
        assert totals["a"] == 2


@BOTH_SHAPES
def test_of_two_states_to_which_no_batch_came_only_the_shape_can_differ(written: Written, value: str) -> None:
    """Both begin after the same txid. What was read of the first one, that it is empty, holds for the second."""
    with written.start():
        pass
    with written.open() as totals:
        assert dict(totals) == {}
        written.end("drop")
        with written.start(value):
            written.feed(("a", 1))
            if value == "long":
                assert totals["a"] == 1
            else:
                refused(lambda: totals.get("a"))


def test_a_reader_goes_on_when_the_driver_has_healed_what_the_server_lost(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    written = Written("redis", tmp_path, shared_redis, groups=2)
    with written.start(), written.open() as totals:
        written.feed(("a", 1), ("b", 1), ("c", 1))
        assert len(dict(totals)) == 3
        shared_redis.client.flushall()
        written.feed(("a", 1))
        assert totals["a"] == 2 and len(dict(totals)) == 3


def test_a_reader_waits_for_a_server_that_fell_back_to_before_the_drop(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The running driver drops what came back and heals its own state; the reader goes on with that."""
    written = Written("redis", tmp_path, shared_redis)
    client: Any = shared_redis.client

    def stored() -> dict[bytes, bytes]:
        return {name: client.dump(name) for name in client.keys("trident:*")}

    def restore(dumped: dict[bytes, bytes]) -> None:
        client.flushall()
        for name, held in dumped.items():
            client.restore(name, 0, held)

    written.write()
    before = stored()
    written.end("drop")
    with written.start():
        written.feed(("a", 1))
    after = stored()
    with written.open() as totals:
        assert totals["a"] == 1
        restore(before)
        with pytest.raises(
            StateRecoveringError, match="its store was restored to a time before the state was dropped;"
        ):
            totals.get("a")
        restore(after)
        assert totals["a"] == 1
        with written.start():
            restore(before)
            written.feed(("a", 1))
            wait_until(lambda: client.hget("trident:{writer/totals}:m", "marker") == b"5")
            assert totals["a"] == 2


@pytest.mark.parametrize("buckets", [64, 32])
def test_a_scan_that_takes_long_takes_no_page_of_another_state(
    tmp_path: Path, shared_redis: RedisServer, buckets: int
) -> None:
    written = Written("redis", tmp_path, shared_redis, buckets=64)
    with written.start():
        written.feed(*((f"w{n}", n) for n in range(400)))
    with written.open() as totals:
        store = totals._followed.paged
        by_page, whole = store.scan_by_page(1, 10), store.scan(1, 10)
        assert next(by_page)[0] == 1 and len(next(whole))
        written.end("drop")
        written.factory = RedisMapState.opaque(shared_redis.url, buckets=buckets)
        with written.start():
            written.feed(*((f"w{n}", n) for n in range(400)))
        for pages in (by_page, whole):
            if buckets == 64:
                refused(functools.partial(list, pages))
            else:
                with pytest.raises(SnapshotMovedError, match="dropped and created again while it was scanned"):
                    list(pages)
        refused(totals.toArrow)


def test_values_of_a_map_are_of_the_state_that_its_meta_entry_names_after_they_were_read(
    tmp_path: Path, shared_redis: RedisServer
) -> None:
    """The state ends between the first look at its meta entry and the read of its values."""
    written = Written("own", tmp_path, shared_redis, "nonTransactional")
    written.write()
    with written.open() as totals:
        store = totals._followed._store
        looked = store._check_readable

        def ended(asOf: int | None) -> int:
            marker: int = looked(asOf)
            written.end("drop")
            written.write("double")
            return marker

        store._check_readable = ended
        refused(lambda: store.read(key_table("totals", totals.keyFields, ["a"]), None))
