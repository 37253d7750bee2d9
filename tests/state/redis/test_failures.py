"""A server that is not there, full, foreign or misconfigured: one typed error that names the way out."""

import time
from pathlib import Path

import pyarrow as pa
import pytest
import redis

from tests.state.redis.states import LEASE, PYTHON, SHAPE, contents, opened, started, update, words
from tests.support.server import RedisServer, free_port
from trident.base.errors import (
    StateCorruptError,
    StateError,
    StateFullError,
    StateOwnedError,
    StateUnavailableError,
    StateValueError,
)
from trident.base.redis_address import Address
from trident_state.redis import writer
from trident_state.redis.failures import are_elsewhere, failure
from trident_state.state_shape import Combine, StateShape
from trident_state.store_messages import Update

META = "trident:{wordcount/counts}:m"


def bucket_of(server: RedisServer, word: str) -> str:
    """The bucket that a key lies in."""
    names = [str(name, "ascii") for name in server.client.scan_iter("*:b:*") if isinstance(name, bytes)]
    (found,) = [name for name in names if server.client.hexists(name, "s" + word)]
    return found


def test_nothing_connects_before_it_must() -> None:
    with opened(f"redis://:secret@127.0.0.1:{free_port()}/0") as store:
        for use in (store.report, store.groups_of, lambda: store.apply(LEASE, update(1, {1: 1}))):
            with pytest.raises(StateUnavailableError) as caught:
                use()
            message = str(caught.value)
            assert message.startswith("state 'counts': the server at redis://:***@127.0.0.1:")
            assert "does not answer" in message and "Check the address, and that" in message
            assert "secret" not in message


def test_a_server_that_hangs_is_unavailable_and_the_commit_can_be_repeated(redis_server: RedisServer) -> None:
    with started(redis_server.url, socketTimeout=0.3) as store:
        store.apply(LEASE, update(1, {1: 1}))
        redis_server.pause()
        begun = time.monotonic()
        with pytest.raises(StateUnavailableError, match="Timeout"):
            store.apply(LEASE, update(2, {1: 1, 2: 2}))
        with pytest.raises(StateUnavailableError):
            store.groups_of()
        assert time.monotonic() - begun < 5
        redis_server.resume()
        store.apply(LEASE, update(2, {1: 1, 2: 2}))
        assert contents(store, 2) == {"w1": 2, "w2": 2}


def test_a_read_waits_once_for_a_server_that_hangs(redis_server: RedisServer) -> None:
    """A connection that is gone is opened again, also for a read; one that does not answer is not asked twice."""
    with started(redis_server.url, socketTimeout=1.0) as store:
        assert contents(store) == {}
        redis_server.pause()
        begun = time.monotonic()
        with pytest.raises(StateUnavailableError, match="Timeout"):
            store.groups_of()
        assert time.monotonic() - begun < 1.7


def test_a_wrong_password_is_told_as_such_and_not_shown(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "none", password="right") as server:
        for url in (server.url.replace(":right@", ":wrong@"), server.url.replace(":right@", "")):
            with opened(url) as store:
                with pytest.raises(
                    StateError, match="state 'counts'.*rejects the login.*Check user and password"
                ) as caught:
                    store.report()
                assert not isinstance(caught.value, StateUnavailableError)
                assert "wrong" not in str(caught.value)
        with started(server.url) as store:
            store.apply(LEASE, update(1, {1: 1}))


@pytest.mark.parametrize("shape", [SHAPE, PYTHON], ids=["server", "python"])
def test_a_full_server_is_told_as_such_and_nothing_is_lost(redis_server: RedisServer, shape: StateShape) -> None:
    with started(redis_server.url, shape) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(1500)}))
        redis_server.client.config_set("maxmemory", "1mb")
        with pytest.raises(StateFullError, match="state 'counts'.*is full.*maxmemory.*Raise its maxmemory"):
            store.apply(LEASE, update(2, {n: 1 for n in range(3000)}))
        assert contents(store, 1) == {f"w{n}": 1 for n in range(1500)}
        redis_server.client.config_set("maxmemory", "0")
        store.apply(LEASE, update(2, {n: 1 for n in range(3000)}))
        assert contents(store, 2) == {f"w{n}": 2 if n < 1500 else 1 for n in range(3000)}


def test_a_server_that_fills_up_in_the_middle_of_a_commit(redis_server: RedisServer) -> None:
    """Some chunks are put, later ones refused; the repeat moves only the rest."""
    grown = dict.fromkeys(range(60_000), 1)
    with started(redis_server.url) as store:
        used = int(redis_server.client.info("memory")["used_memory"])
        redis_server.client.config_set("maxmemory", used + 1_000_000)
        with pytest.raises(StateFullError):
            store.apply(LEASE, update(1, grown))
        half = len(contents(store))
        assert 0 < half < 60_000
        assert contents(store, 0) == {}, "none of it is committed"
        redis_server.client.config_set("maxmemory", "0")
        applied = store.apply(LEASE, update(1, grown))
        assert (applied.written, applied.skipped) == (60_000 - half, half)
        assert contents(store, 1) == {f"w{n}": 1 for n in grown}


def test_a_master_that_became_a_replica_is_waited_for(redis_server: RedisServer) -> None:
    with started(redis_server.url) as store:
        store.apply(LEASE, update(1, {1: 1}))
        redis_server.client.replicaof("127.0.0.1", str(free_port()))
        with pytest.raises(StateUnavailableError, match="state 'counts'.*(READONLY|read only)"):
            store.apply(LEASE, update(2, {1: 1}))
        with pytest.raises(StateUnavailableError, match="is a slave; the url must lead to its master"):
            store.report()
        redis_server.client.replicaof("NO", "ONE")
        store.apply(LEASE, update(2, {1: 1}))
        assert contents(store, 2) == {"w1": 2}


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("-READONLY You can't write against a read only replica. ", StateUnavailableError),
        ("-OOM command not allowed when used memory > 'maxmemory'. ", StateFullError),
    ],
)
def test_what_a_script_met_on_redis_6_is_told_by_a_code_in_the_midst_of_the_message(said: str, kind: type) -> None:
    error = redis.ResponseError(f"Error running script (call to f_{'a' * 40}): @user_script:5: @user_script: 5: {said}")
    assert type(failure("state 'counts'", Address("redis://localhost", 1, 1), error)) is kind
    assert are_elsewhere([b"OK", error], inside=False) is (kind is StateUnavailableError)


@pytest.mark.parametrize("shape", [SHAPE, PYTHON], ids=["server", "python"])
def test_scripts_that_somebody_flushed_are_loaded_again(shared_redis: RedisServer, shape: StateShape) -> None:
    with started(shared_redis.url, shape) as store:
        store.apply(LEASE, update(1, {1: 1}))
        shared_redis.client.script_flush()
        store.apply(LEASE, update(2, {1: 1}))
        shared_redis.client.script_flush()
        store.acquire(LEASE)
        assert contents(store, 2) == {"w1": 2}


@pytest.mark.parametrize("shape", [SHAPE, PYTHON], ids=["server", "python"])
def test_a_bucket_that_became_something_else_is_refused_and_nothing_is_half_counted(
    shared_redis: RedisServer, shape: StateShape
) -> None:
    with started(shared_redis.url, shape, buckets=4) as store:
        store.apply(LEASE, update(1, {n: 1 for n in range(40)}))
        name = bucket_of(shared_redis, "w7")
        kept = shared_redis.client.dump(name)
        assert kept is not None
        shared_redis.client.set(name, "mine")
        with pytest.raises(StateOwnedError, match="state 'counts'.*another program wrote a key.*Choose another prefix"):
            store.apply(LEASE, update(2, {n: 1 for n in range(40)}))
        with pytest.raises(StateOwnedError, match=f"state 'counts': the key '{name}' is a string"):
            store.report()
        shared_redis.client.restore(name, 0, kept, replace=True)
        store.apply(LEASE, update(2, {n: 1 for n in range(40)}))
        assert contents(store, 2) == {f"w{n}": 2 for n in range(40)}


def test_a_server_that_evicts_is_refused(redis_server: RedisServer) -> None:
    redis_server.client.config_set("maxmemory-policy", "allkeys-lru")
    with (
        opened(redis_server.url) as store,
        pytest.raises(StateError, match="state 'counts'.*maxmemory-policy allkeys-lru.*set it to noeviction"),
    ):
        store.report()
    assert redis_server.client.dbsize() == 0


def test_a_server_without_a_log_of_its_own_is_warned_about(tmp_path: Path) -> None:
    with RedisServer(tmp_path, "none") as server, opened(server.url) as store:
        (warning,) = store.check_server()
        assert store.warnings == (warning,)
        assert warning.startswith("state 'counts': appendonly is off")
        server.client.config_set("appendonly", "yes")
        assert store.check_server() == ()


def test_a_count_that_does_not_fit_the_batch_refuses_the_commit(shared_redis: RedisServer) -> None:
    """The guard against a chunk that never came: here one key too many was moved by another content of the batch."""
    with started(shared_redis.url) as store:
        store.apply(LEASE, update(1, {1: 1}))
        shared_redis.client.hset(META, mapping={"moving": 2, "moved": 1})
        with pytest.raises(StateCorruptError, match="state 'counts'.*cannot commit txid 2: 3 keys have this txid"):
            store.apply(LEASE, update(2, {1: 1, 2: 2}))
        assert store.groups_of()[0].marker == 1
        assert contents(store, 1) == {"w1": 1}


@pytest.mark.parametrize("shape", [SHAPE, PYTHON], ids=["server", "python"])
def test_a_key_from_a_later_batch_refuses_the_batch(shared_redis: RedisServer, shape: StateShape) -> None:
    with started(shared_redis.url, shape) as store:
        store.apply(LEASE, update(1, {1: 1}))
        store.apply(LEASE, update(2, {1: 1}))
        shared_redis.client.hset(META, "marker", 0)
        with pytest.raises(
            StateCorruptError,
            match="batch 1 cannot be applied: a key was changed by .*, although the state is only at txid .*",
        ):
            store.apply(LEASE, update(1, {1: 1}))


@pytest.mark.parametrize("value", [b"", b"\x00", b"x" * 25, b"\xff" * 30])
@pytest.mark.parametrize("shape", [SHAPE, PYTHON], ids=["server", "python"])
def test_bytes_that_are_no_record_are_refused(shared_redis: RedisServer, value: bytes, shape: StateShape) -> None:
    with started(shared_redis.url, shape) as store:
        store.apply(LEASE, update(1, {1: 1}))
        shared_redis.client.hset(bucket_of(shared_redis, "w1"), "sw1", value)
        with pytest.raises(StateError, match=r"state 'counts'|record"):
            store.apply(LEASE, update(2, {1: 1}))
        with pytest.raises(StateCorruptError, match="state 'counts'"):
            contents(store)
        assert store.groups_of()[0].marker == 1


def test_a_meta_hash_without_numbers_is_corrupt(shared_redis: RedisServer) -> None:
    with started(shared_redis.url) as store:
        shared_redis.client.hset(META, "marker", "soon")
        for use in (store.groups_of, store.report):
            with pytest.raises(StateCorruptError, match="state 'counts'"):
                use()


def test_a_value_over_the_limit_names_its_key_and_the_way_out(
    shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "_MAX_RECORD", 1000)
    shape = StateShape(pa.schema({"word": pa.string()}), pa.string(), Combine("Last", lambda stored, delta: delta))
    deltas = pa.array(["a", "b" * 2000, "c"])
    with started(shared_redis.url, shape) as store:
        says = (
            r"batch 1 makes a value of 20\d\d bytes \(with the previous one\) under the key {'word': 'w2'}.*at "
            r"most 1000.*dropState"
        )
        with pytest.raises(StateValueError, match=says):
            store.apply(LEASE, Update(1, words([1, 2, 3]), deltas))
        assert store.groups_of()[0].marker == 0
        store.drop()
