"""A state that keeps due times: its index fits its records, whatever happens between two puts."""

import random
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from pyspark import cloudpickle

from tests.state.redis.states import LEASE, SECOND, opened, started, words
from tests.support.server import RedisServer
from trident.base.errors import FencedError, SnapshotMovedError, StateError, StateRecoveringError, StateUnavailableError
from trident_state.redis import RedisStore
from trident_state.redis.due_index import DueIndex
from trident_state.redis.due_scores import score, scores, shared_score
from trident_state.redis.reader import Reader
from trident_state.state_shape import StateKind, StateShape, replacing
from trident_state.store_messages import Update

YEAR_3000 = 32_503_680_000_000_000


def as_it_is(values: pa.Array) -> pa.Array:
    """The value of a key is the time at which it is due."""
    return values


SHAPE = StateShape(pa.schema({"word": pa.string()}), pa.int64(), replacing(), as_it_is)
UNTIMED = StateShape(SHAPE.keys, SHAPE.value, SHAPE.combine)
OPTIONS: dict[str, dict[str, Any]] = {"hash": {}, "groups": {"groups": 4, "buckets": 64}, "json": {"values": "json"}}


def puts(txid: int, due: dict[int, int | None]) -> Update:
    return Update(txid, words(list(due)), pa.array(list(due.values()), pa.int64()))


def due(store: RedisStore, as_of: int, until: int) -> list[str]:
    found = store.due(as_of, until)
    assert found is not None
    words: list[str] = found["word"].to_pylist()
    assert len({*words}) == len(words)
    return sorted(words)


def expected(held: dict[int, int | None], until: int) -> list[str]:
    return sorted(f"w{key}" for key, time in held.items() if time is not None and time <= until)


@pytest.mark.parametrize("kind", [StateKind.OPAQUE, StateKind.TRANSACTIONAL])
@pytest.mark.parametrize("layout", OPTIONS)
def test_what_is_due_is_what_the_records_say(shared_redis: RedisServer, layout: str, kind: StateKind) -> None:
    chance = random.Random(layout)
    held: dict[int, int | None] = {}
    with started(shared_redis.url, SHAPE, kind, **OPTIONS[layout]) as store:
        assert due(store, 0, 10**18) == []
        for txid in range(1, 6):
            given = {key: chance.choice([None, chance.randint(-50, 50)]) for key in chance.sample(range(1500), 700)}
            if txid % 2:
                store.apply(LEASE, puts(txid, given))
            else:  # as workers do
                batch = cloudpickle.loads(cloudpickle.dumps(store.open_batch(LEASE, puts(txid, {}))))
                update = puts(txid, given)
                store.commit_batch(batch, puts(txid, {}), [batch.put([(update.keys, update.deltas)])])
            held |= given
            snapshot = cloudpickle.loads(cloudpickle.dumps(store.open_snapshot(txid)))
            for until in (-51, 0, 17, 50):
                assert due(store, txid, until) == expected(held, until)
                of_groups = [page for group in range(snapshot.groups) for page in snapshot.due_in(group, until)]
                assert sorted(w for page in of_groups for w in page["word"].to_pylist()) == expected(held, until)
                assert snapshot.count_due(until) == len(expected(held, until))
        assert snapshot.groups == OPTIONS[layout].get("groups", 1)
        store.drop(LEASE)
        assert shared_redis.client.keys("*") == []


def test_the_groups_of_a_state_are_asked_together(shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """One round trip tells that nothing is due, and one more brings 10,000 keys, however many groups there are."""
    asked, asking = list[int](), Reader.snapshot

    def counted(*args: Any) -> Any:
        asked.append(1)
        return asking(*args)

    monkeypatch.setattr(Reader, "snapshot", counted)
    held: dict[int, int | None] = {key: key for key in range(9_000)}
    with started(shared_redis.url, SHAPE, groups=16, buckets=64) as store:
        store.apply(LEASE, puts(1, held))
        for until, trips in ((-1, 1), (1000, 2), (9_000, 2)):
            asked.clear()
            assert due(store, 1, until) == expected(held, until)
            assert len(asked) == trips


def test_due_times_are_asked_between_two_batches_and_under_the_lease(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, SHAPE) as store:
        store.apply(LEASE, puts(1, {1: 5}))
        snapshot = store.open_snapshot(1)
        with pytest.raises(StateRecoveringError):
            store.due(2, 9)
        batch = store.open_batch(LEASE, puts(2, {}))
        assert store.due(1, 9) is None and snapshot.count_due(9) is None
        store.commit_batch(batch, puts(2, {}), [batch.put([(words([2]), pa.array([7]))])])
        with pytest.raises(SnapshotMovedError, match="batch 2 has already started"):
            list(snapshot.due_in(0, 9))
        snapshot = store.open_snapshot(2)
        with opened(shared_redis.url, SHAPE) as other:
            other.report()
            other.acquire(SECOND)
            assert due(other, 2, 9) == ["w1", "w2"]
            with pytest.raises(SnapshotMovedError, match="another driver"):
                list(snapshot.due_in(0, 9))


def test_a_doubled_put_and_a_late_one_leave_the_index_as_it_is(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, SHAPE) as store:
        batch = store.open_batch(LEASE, puts(1, {}))
        part = [(words([1, 2]), pa.array([5, None], pa.int64()))]
        put = batch.put(part)
        assert batch.put(part).moved == 0
        store.commit_batch(batch, puts(1, {}), [put])
        store.apply(LEASE, puts(2, {1: 50, 2: 6}))
        with pytest.raises(StateError, match="batch 1 cannot be applied"):
            batch.put(part)
        assert due(store, 2, 49) == ["w2"]
        with opened(shared_redis.url, SHAPE) as other:
            other.report()
            other.acquire(SECOND)
            with pytest.raises(FencedError):
                store.apply(LEASE, puts(3, {1: 1}))
            assert due(other, 2, 49) == ["w2"]


def test_an_index_that_somebody_deleted_is_built_again(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, SHAPE) as store:
        store.apply(LEASE, puts(1, {1: 5, 2: 9}))
    assert shared_redis.client.delete(*shared_redis.client.keys("*:due")) == 1
    with opened(shared_redis.url, SHAPE) as store:
        store.report()
        store.acquire(SECOND)
        assert due(store, 1, 8) == ["w1"]


@pytest.mark.parametrize("later", [False, True])
def test_an_index_some_of_whose_entries_were_removed_is_told_and_built_again(
    shared_redis: RedisServer, later: bool
) -> None:
    with started(shared_redis.url, SHAPE) as store:
        store.apply(LEASE, puts(1, {1: 5, 2: 9}))
        store.apply(LEASE, puts(2, {1: 6, 2: None, 3: 7}))
        assert due(store, 2, 9) == ["w1", "w3"]
        (index,) = shared_redis.client.keys("*:due")
        shared_redis.client.zremrangebyrank(index, 0, 0)
        with pytest.raises(
            StateRecoveringError,
            match="index of due times .* has only 1 of 2 entries in a group of keys: another client",
        ):
            store.due(2, 9)
        if later:  # a put of another key makes the index anew, if it was removed as a whole
            shared_redis.client.delete(index)
            store.apply(LEASE, puts(3, {4: 8}))
    held = {1: 6, 3: 7, 4: 8} if later else {1: 6, 3: 7}
    with opened(shared_redis.url, SHAPE) as store:
        store.report()
        store.acquire(SECOND)
        assert due(store, 2 + later, 9) == expected(dict(held), 9)


def test_an_index_that_was_built_in_part_is_built_again(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver dies after a few of the pages of an index that it builds because somebody deleted it."""
    monkeypatch.setattr("trident_state.redis.due_index._PAGE_KEYS", 100)
    held: dict[int, int | None] = {key: key for key in range(1000)}
    with started(shared_redis.url, SHAPE) as store:
        store.apply(LEASE, puts(1, held))
    assert shared_redis.client.delete(*shared_redis.client.keys("*:due")) == 1

    def noted(*args: Any) -> None:
        if args[5] == b"more" and next(pages) == 3:
            raise StateUnavailableError("killed")
        noting(*args)

    noting, pages = DueIndex._note, count()
    with opened(shared_redis.url, SHAPE) as store, monkeypatch.context() as patch:
        patch.setattr(DueIndex, "_note", noted)
        store.report()
        with pytest.raises(StateUnavailableError):
            store.acquire(SECOND)
    with opened(shared_redis.url, SHAPE) as store:
        store.report()
        store.acquire(type(LEASE)(3, "third"))
        assert due(store, 1, 900) == expected(held, 900)


def test_a_server_that_lost_a_part_of_what_was_built_of_an_index_builds_it_again(shared_redis: RedisServer) -> None:
    """It fell back to a time after the fence was set: the fence and the marker do not tell."""
    held: dict[int, int | None] = {key: key for key in range(100)}
    client = shared_redis.client
    with started(shared_redis.url, UNTIMED, groups=2) as store:
        store.apply(LEASE, puts(1, held))
    with opened(shared_redis.url, SHAPE, groups=2) as store:
        store.report()
        store.acquire(SECOND)
        client.hdel(client.keys("*:m")[0], "due")
        client.zremrangebyrank(client.keys("*:due")[0], 0, 10)
        for txid in (1, 2):  # a batch that is put and committed meanwhile changes nothing in this
            assert [group.lease for group in store.groups_of()].count(None) == 1, "so it is healed"
            with pytest.raises(StateRecoveringError, match="lost a part of the index"):
                store.due(txid, 49)
            with pytest.raises(StateRecoveringError, match="lost a part of the index"):
                list(store.open_snapshot(txid).due_in(0, 49))
            if txid == 1:
                store.apply(SECOND, puts(2, {50: 3}))
        store.acquire(SECOND)
        assert due(store, 2, 49) == expected(held | {50: 3}, 49)
        assert {group.lease for group in store.groups_of()} == {SECOND}


def test_a_state_of_one_value_keeps_its_due_time(shared_redis: RedisServer) -> None:
    shape = StateShape(pa.schema([]), pa.int64(), replacing(), as_it_is)
    with started(shared_redis.url, shape) as store:
        store.apply(LEASE, Update(1, pa.table({"": pa.nulls(1)}).select([]), pa.array([5])))
        for until, rows in ((4, 0), (5, 1)):
            found = store.due(1, until)
            assert found is not None and found.num_rows == rows


def test_scores_are_never_greater_than_the_times() -> None:
    times = [0, -1, 2**53 - 1, 2**53 + 1, YEAR_3000 * 7, YEAR_3000 + 1, -62_135_596_800_000_000, 2**62 + 1]
    packed = scores(pa.array([*times, None], pa.int64()))
    found = list(memoryview(packed).cast("d"))
    assert all(int(value) <= time for value, time in zip(found, times, strict=False)) and found[-1] != found[-1]
    assert [float(score(time)) for time in times] == found[:-1]
    ordered = sorted(times)
    assert [float(score(time)) for time in ordered] == sorted(found[:-1])


@pytest.mark.parametrize("layout", OPTIONS)
def test_times_that_share_a_score_are_compared_exactly(shared_redis: RedisServer, layout: str) -> None:
    held = {key: YEAR_3000 + key // 2 for key in range(16)}
    with started(shared_redis.url, SHAPE, **OPTIONS[layout]) as store:
        store.apply(LEASE, puts(1, {**held, 16: None}))
        for until in range(YEAR_3000 - 3, YEAR_3000 + 10):
            for most in (1, 3, 100):
                found = store.due(1, until, most)
                assert found is not None
                keys = [int(word[1:]) for word in found["word"].to_pylist()]
                assert len(keys) == min(most, len(expected(dict(held), until)))
                times = [held[key] for key in keys]
                assert times == sorted(held.values())[: len(times)] and max(times, default=until) <= until
            assert store.first_due(1, until) == YEAR_3000
        for txid in range(2, 9):
            store.apply(LEASE, puts(txid, {2 * txid - 4: None, 2 * txid - 3: None}))
            least = YEAR_3000 + txid - 1
            for until in range(YEAR_3000, YEAR_3000 + 10):
                first = store.first_due(txid, until)
                assert first is not None and (first <= least and (first <= until) == (least <= until))


def test_a_time_after_all_others_has_the_score_of_no_other() -> None:
    assert shared_score(2**53 - 1) is None and shared_score(2**53) == 2.0**53 and shared_score(2**53 + 1) is None
    assert shared_score(-(2**54)) == -(2.0**54) and shared_score(1 - 2**54) is None
