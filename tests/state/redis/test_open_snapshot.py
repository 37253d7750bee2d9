"""Other processes read a state as of a txid: late and doubled reads give the same answers, or say that it moved."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.state.redis.states import LEASE, SECOND, SHAPE, batches, started, sums, update, words
from tests.support.server import RedisServer
from trident.base.errors import SnapshotMovedError, StateError, StateRecoveringError
from trident_state.redis.open_snapshot import OpenSnapshot
from trident_state.state_shape import StateKind

GIVEN = batches(4, 60, 40)
KEYS = words(range(60))
OPTIONS: dict[str, dict[str, Any]] = {"hash": {}, "groups": {"groups": 4, "buckets": 64}}


def looked_up(snapshot: OpenSnapshot) -> dict[str, int]:
    values = snapshot.read(KEYS).to_pylist()
    return {w: value for w, value in zip(KEYS["word"].to_pylist(), values, strict=True) if value is not None}


def scanned(snapshot: OpenSnapshot) -> dict[str, int]:
    rows = pa.concat_tables(snapshot.scan()).to_pylist()
    return {row["word"]: row["value"] for row in rows}


READS: list[Callable[[OpenSnapshot], dict[str, int]]] = [looked_up, scanned]


def sent(snapshot: OpenSnapshot) -> OpenSnapshot:
    there: OpenSnapshot = cloudpickle.loads(cloudpickle.dumps(snapshot))
    return there


@pytest.mark.parametrize("layout", OPTIONS)
@pytest.mark.parametrize("read", READS)
def test_a_late_read_sees_nothing_of_the_next_batch(shared_redis: RedisServer, layout: str, read: Any) -> None:
    with started(shared_redis.url, **OPTIONS[layout]) as store:
        store.apply(LEASE, update(1, GIVEN[0]))
        snapshot, right = sent(store.open_snapshot(1)), sums(GIVEN[:1])
        assert read(snapshot) == right
        batch = store.open_batch(LEASE, update(2, {}))
        given = update(2, GIVEN[1])
        puts = [batch.put([(given.keys, given.deltas)])]
        assert read(snapshot) == right, "keys of the next batch are there"
        store.commit_batch(batch, update(2, {}), puts)
        assert read(snapshot) == right, "the next batch is committed"


@pytest.mark.parametrize("read", READS)
def test_a_read_two_batches_later_says_that_the_state_moved(shared_redis: RedisServer, read: Any) -> None:
    with started(shared_redis.url, **OPTIONS["groups"]) as store:
        store.apply(LEASE, update(1, GIVEN[0]))
        snapshot = sent(store.open_snapshot(1))
        for txid in (2, 3):
            store.apply(LEASE, update(txid, GIVEN[txid - 1]))
        with pytest.raises(SnapshotMovedError):
            read(snapshot)


@pytest.mark.parametrize("read", READS)
def test_an_executor_of_a_driver_that_was_taken_over_reads_nothing(shared_redis: RedisServer, read: Any) -> None:
    """The later driver may have dropped the state, and begun it anew under the same txids."""
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, GIVEN[0]))
        snapshot = sent(store.open_snapshot(1))
        store.acquire(SECOND)
        with pytest.raises(SnapshotMovedError, match="another driver has taken it over"):
            read(snapshot)


@pytest.mark.parametrize("read", READS)
def test_a_state_that_fell_back_says_so(shared_redis: RedisServer, read: Any) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, GIVEN[0]))
        snapshot = sent(store.open_snapshot(1))
        store.drop()
        store.create(LEASE, 0)
        store.acquire(LEASE)
        with pytest.raises(StateRecoveringError):
            read(snapshot)


def test_a_snapshot_is_not_opened_of_a_state_that_cannot_be_read_so(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store, started(shared_redis.url, SHAPE, prefix="other") as behind:
        store.apply(LEASE, update(1, GIVEN[0]))
        with pytest.raises(StateRecoveringError):
            behind.open_snapshot(1)
        key = b"%b" % store._layout().meta(0)
        shared_redis.client.hset(key, mapping={"token": "second", "epoch": 2})
        with pytest.raises(SnapshotMovedError, match="another driver has taken it over"):
            store.open_snapshot(1)


def test_a_state_without_txids_is_refused(shared_redis: RedisServer) -> None:
    with (
        started(shared_redis.url, kind=StateKind.NON_TRANSACTIONAL) as store,
        pytest.raises(StateError, match="cannot be read as of a txid"),
    ):
        store.open_snapshot(0)
