"""Whose keys are whose: names, foreign keys, other layouts, drop."""

import re
from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pytest

from tests.state.redis.states import IDENTITY, LEASE, PYTHON, SECOND, contents, opened, started, update
from tests.support.server import RedisServer
from trident.base.attempt import Lease
from trident.base.errors import SnapshotMovedError, StateOwnedError, StateShapeError, TopologyError
from trident_state.redis.command_routing import Links, Reply
from trident_state.state_shape import StateIdentity, StateKind
from trident_state.store_messages import Update

META = "trident:{wordcount/counts}:m"


def names_in(server: RedisServer) -> list[str]:
    return [name.decode() for name in server.client.scan_iter("*") if isinstance(name, bytes)]


def test_keys_of_users_never_get_into_names(shared_redis: RedisServer) -> None:
    odd = ["{x}", "*", "a:b:c", "\r\n", "trident:{wordcount/counts}:m", "é", ""]
    with started(shared_redis.url, buckets=8) as store:
        store.apply(LEASE, Update(1, pa.table({"word": odd}), pa.array(range(len(odd)), pa.int64())))
        assert contents(store, 1) == {word: n for n, word in enumerate(odd)}
    names = names_in(shared_redis)
    assert META in names
    assert all(re.fullmatch(r"trident:\{wordcount/counts\}:(m|b:[0-7])", name) for name in names), names


def test_groups_have_tags_of_their_own(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, groups=2, buckets=4, prefix="app:1") as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(100)}))
        assert len(store.groups_of()) == 2
    assert set(names_in(shared_redis)) == {
        f"app:1:{{wordcount/counts/{group}}}:{rest}" for group in (0, 1) for rest in ("m", "b:0", "b:1")
    }


@pytest.mark.parametrize("name", ["a b", "a/b", "{a}", "", "é"])
def test_names_that_could_break_a_key_are_refused(name: str) -> None:
    with pytest.raises(TopologyError, match="cannot name a state in Redis"):
        opened("redis://localhost", identity=StateIdentity("wordcount", name, "log")).__enter__()
    if name != "":
        with pytest.raises(ValueError, match="prefix=.*: expected letters"):
            opened("redis://localhost", prefix=name).__enter__()


# --- foreign keys ------------------------------------------------------------------------------------------------


def refused(server: RedisServer, message: str, drop: bool = True, **options: object) -> None:
    """Report and create refuse, and drop where it is said, and touch nothing."""
    before = {name: server.client.dump(name) for name in server.client.keys("*")}
    with opened(server.url, **options) as store:  # type: ignore[arg-type]
        for use in (store.report, lambda: store.create(SECOND, 0), *[store.drop][: int(drop)]):
            with pytest.raises((StateOwnedError, StateShapeError), match=message):
                use()
    assert {name: server.client.dump(name) for name in server.client.keys("*")} == before


def test_a_foreign_key_where_meta_should_be(shared_redis: RedisServer) -> None:
    shared_redis.client.set(META, "mine")
    refused(shared_redis, f"state 'counts': the key '{META}' is a string; nothing was changed. Choose another prefix")
    shared_redis.client.delete(META)
    shared_redis.client.hset(META, "mine", 1)
    refused(shared_redis, f"state 'counts': the key '{META}' is a hash that this library did not write")


def test_a_foreign_key_where_a_bucket_should_be(shared_redis: RedisServer) -> None:
    shared_redis.client.rpush("trident:{wordcount/counts}:b:7", "mine")
    refused(shared_redis, r"state 'counts': the key 'trident:{wordcount/counts}:b:7' is a list")
    shared_redis.client.delete("trident:{wordcount/counts}:b:7")
    shared_redis.client.hset("trident:{wordcount/counts}:b:7", "mine", 1)
    refused(shared_redis, r"'trident:{wordcount/counts}:b:7' exists without the state's meta hash")


def test_a_state_that_is_founded_while_one_looks_is_not_taken_for_foreign_keys(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    exchange, founded = Links.exchange, list[int]()

    def founding(self: Links, commands: Sequence[bytes], errors: bool = False) -> list[Reply]:
        if not commands[0].startswith(b"*2\r\n$4\r\nTYPE") or founded:
            return exchange(self, commands, errors)
        founded.append(1)
        metas = exchange(self, commands[:2], errors)
        with started(shared_redis.url) as other:
            other.apply(LEASE, update(1, {1: 1}))
        return metas + exchange(self, commands[2:], errors)

    monkeypatch.setattr(Links, "exchange", founding)
    with opened(shared_redis.url) as store:
        assert store.report().identity == IDENTITY
    assert founded


def test_a_state_that_was_founded_in_parts_is_founded_again(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, groups=2, birth=1):
        pass
    shared_redis.client.delete(*shared_redis.client.keys("*/0}:*"))  # the group that is founded last
    with opened(shared_redis.url, groups=2) as store:
        report = store.report()
        assert report.identity is None
        assert [(group.lease, group.marker) for group in report.groups] == [(None, None), (LEASE, None)]
        store.create(SECOND, 3)
        assert [(group.lease, group.marker) for group in store.groups_of()] == [(SECOND, 3), (SECOND, 3)]


@pytest.mark.parametrize("lease", [LEASE, SECOND])
def test_what_is_left_of_a_state_is_not_taken_for_one_founded_in_parts_though_it_holds_no_keys(
    shared_redis: RedisServer, lease: Lease
) -> None:
    with started(shared_redis.url, groups=2) as store:
        store.apply(LEASE, update(1, {}))
    shared_redis.client.delete(*shared_redis.client.keys("*/0}:*"))
    with opened(shared_redis.url, groups=2) as store:
        report = store.report()
        assert report.identity == IDENTITY
        assert [group.marker for group in report.groups] == [None, 1]
        store.create(lease, 0)
        store.acquire(lease)
        store.apply(lease, update(1, {}))
        assert [(group.lease, group.marker) for group in store.groups_of()] == [(lease, 1), (lease, 1)]


def test_what_another_log_founded_in_parts_is_not_taken_for_nothing(shared_redis: RedisServer) -> None:
    before = StateIdentity("wordcount", "counts", "log-0")
    with started(shared_redis.url, identity=before, groups=2):
        pass
    shared_redis.client.delete(*shared_redis.client.keys("*/0}:*"))
    with opened(shared_redis.url, groups=2) as store:
        assert store.report().identity == before


def test_a_part_that_another_log_wrote_is_reported(shared_redis: RedisServer) -> None:
    before = StateIdentity("wordcount", "counts", "log-0")
    with started(shared_redis.url, groups=2):
        pass
    shared_redis.client.hset("trident:{wordcount/counts/1}:m", "log", "log-0")
    with opened(shared_redis.url, groups=2) as store:
        assert store.report().identity == before


def test_keys_that_were_moved_to_a_txid_tell_of_it_after_its_open_record_was_erased(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, {1: 1}))
        shared_redis.client.hset(META, mapping={"moving": "2", "moved": "1"})  # a batch that was put in parts
        store.acquire(SECOND)
        assert [(group.marker, group.opened) for group in store.report().groups] == [(1, 2)]


def test_a_state_of_a_later_format(shared_redis: RedisServer) -> None:
    with started(shared_redis.url):
        pass
    shared_redis.client.hset(META, "format", 3)
    refused(shared_redis, "has format 3, this version reads format 2")


def test_a_state_kept_in_another_form(shared_redis: RedisServer) -> None:
    with started(shared_redis.url):
        pass
    refused(shared_redis, "created with values=packed, but is declared with values=json", drop=False, values="json")
    refused(shared_redis, "created with groups=1, but is declared with groups=2", drop=False, groups=2)
    shared_redis.client.flushall()
    with started(shared_redis.url, groups=2):
        pass
    refused(shared_redis, "created with groups=2, but is declared with groups=1", drop=False)
    refused(shared_redis, "created with groups=2, but is declared with groups=4", drop=False, groups=4)


@pytest.mark.parametrize("declared", [{"groups": 4}, {"groups": 1}, {"groups": 2, "values": "json"}])
def test_a_state_is_dropped_whole_however_it_is_declared_now(
    shared_redis: RedisServer, declared: dict[str, Any]
) -> None:
    with started(shared_redis.url, groups=2, buckets=64) as store:
        store.apply(LEASE, update(1, {n: n for n in range(200)}))
    with opened(shared_redis.url, buckets=8, **declared) as store:
        store.drop()
    assert shared_redis.client.keys("*") == []


@pytest.mark.parametrize("group", [0, 1])
@pytest.mark.parametrize(
    "now", [{"groups": 2, "buckets": 8}, {"groups": 2, "buckets": 128}, {"groups": 4, "buckets": 64}]
)
def test_a_state_is_dropped_whole_where_a_part_of_it_fell_back_to_another_layout(
    shared_redis: RedisServer, group: int, now: dict[str, Any]
) -> None:
    client, part = shared_redis.client, f"*/{group}}}:*"
    with started(shared_redis.url, groups=2, buckets=64) as store:
        store.apply(LEASE, update(1, {n: n for n in range(200)}))
        before = {name: client.dump(name) for name in client.keys(part)}
        store.drop()
    with started(shared_redis.url, lease=SECOND, **now) as store:
        store.apply(SECOND, update(1, {n: n for n in range(200)}))
        client.delete(*client.keys(part))
        for name, held in before.items():
            client.restore(name, 0, held)
        store.drop()
    assert client.keys("*") == []


def test_another_log_kind_or_aggregator_is_reported_for_the_runtime_to_judge(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, kind=StateKind.TRANSACTIONAL):
        pass
    with opened(shared_redis.url, PYTHON, identity=StateIdentity("wordcount", "counts", "log-2")) as store:
        report = store.report()
        assert report.identity == IDENTITY
        assert report.kind is StateKind.TRANSACTIONAL
        assert report.fingerprint == "(word string) -> int64 by Sum"


def test_a_state_keeps_the_number_of_buckets_it_was_created_with(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, buckets=8) as store:
        store.apply(LEASE, update(1, {n: n for n in range(100)}))
    with opened(shared_redis.url, buckets=1024) as store:
        store.acquire(SECOND)
        store.apply(SECOND, update(2, {n: 1 for n in range(100)}))
        assert contents(store, 2) == {f"w{n}": n + 1 for n in range(100)}
    assert len(shared_redis.client.keys("*:b:*")) == 8


def test_a_reader_notices_that_the_state_was_created_anew_with_other_buckets(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, buckets=8) as store, opened(shared_redis.url, buckets=8) as reader:
        store.apply(LEASE, update(1, {1: 1}))
        assert contents(reader, 1) == {"w1": 1}
        store.drop()
        with started(shared_redis.url, buckets=64, lease=SECOND) as other:
            other.apply(SECOND, update(1, {n: 2 for n in range(50)}))
            assert contents(reader, 1) == {f"w{n}": 2 for n in range(50)}
            scan = reader.scan(1, 10)
            next(scan)
            other.drop()
            with (
                started(shared_redis.url, buckets=8, lease=SECOND, birth=1),
                pytest.raises(SnapshotMovedError, match="state 'counts' was dropped and created again"),
            ):
                list(scan)


# --- big buckets, drop -------------------------------------------------------------------------------------------


def test_a_bucket_of_many_keys_is_put_in_chunks_and_scanned_in_pieces(shared_redis: RedisServer) -> None:
    with started(shared_redis.url, buckets=1) as store:
        for txid in (1, 2):
            applied = store.apply(LEASE, update(txid, {n: n for n in range(7_500)}), values=True)
            assert applied.values is not None
            assert applied.values.to_pylist() == [txid * n for n in range(7_500)]
        pages = list(store.scan(2, 900))
        assert len(pages) > 7
        found = [word for page in pages for word in page["word"].to_pylist()]
        assert len(found) == len(set(found)) == 7_500
        assert contents(store, 2) == {f"w{n}": 2 * n for n in range(7_500)}
        assert contents(store, 1) == {f"w{n}": n for n in range(7_500)}


def test_the_number_of_keys_is_counted_once_each(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(2_000)}))
        store.apply(LEASE, update(1, {n: 1 for n in range(2_000)}))
        store.apply(LEASE, update(2, {n: 1 for n in range(1_000, 2_500)}))
    assert shared_redis.client.hget(META, "keys") == b"2500"


@pytest.mark.parametrize("groups", [1, 4])
def test_drop_deletes_exactly_ours(shared_redis: RedisServer, groups: int) -> None:
    client = shared_redis.client
    client.set("trident:{wordcount/counts}:mine", 1)
    client.set("trident:{wordcount/counts}:b:99999", 1)
    client.set("trident:mine", 1)
    before = set(client.keys("*"))
    with started(shared_redis.url, groups=groups, buckets=64) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(2_000)}))
        assert len(client.keys("*")) == len(before) + 64 + groups
        store.drop()
        assert set(client.keys("*")) == before
        store.drop()
