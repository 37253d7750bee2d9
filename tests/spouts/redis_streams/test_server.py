"""Ways to the servers, what they refuse, and how a cluster's streams are found."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from tests.support.cluster import RedisCluster
from tests.support.plans import logged, planned
from tests.support.proxy import Proxy
from tests.support.server import RedisServer, free_port
from trident.base.attempt import TransactionAttempt
from trident.errors import SourceUnreadableError, SpoutContractError
from trident.spouts import RedisStreamSpout
from trident_spouts.executor import Metadata, SpoutExecutor

ALL = list(range(1, 41))


def fill(client: Any, *streams: str) -> None:
    for stream in streams:
        for n in ALL:
            client.xadd(stream, {"n": n}, id=f"{n}-0")


def read(spout: Any, plans: list[Metadata] | None = None) -> list[int]:
    """Return the numbers of all entries that a spout plans and emits."""
    executor = spout.open()
    numbers: list[int] = []
    for txid, plan in enumerate(planned(spout) if plans is None else plans, 1):
        numbers += [row["n"] for row in executor.emit(TransactionAttempt(txid, 0), plan).arrow().to_pylist()]
    return sorted(numbers)


def next_plan(executor: SpoutExecutor) -> Metadata:
    return logged(executor.plan(TransactionAttempt(1, 0), None, 0.0))


def test_a_stream_is_read_in_batches_by_number_and_by_bytes(shared_redis: RedisServer) -> None:
    for n in range(100):
        shared_redis.client.xadd("s", {"n": n, "more": "x" * 1000})
    plans: list[Any] = planned(RedisStreamSpout(shared_redis.url, "s", "n long", maxEntriesPerBatch=30))
    assert [sum(page[3] for page in plan["pages"]) for plan in plans] == [30, 30, 30, 10]
    plans = planned(RedisStreamSpout(shared_redis.url, "s", "n long", maxBytesPerBatch=40_000))
    assert [sum(page[3] for page in plan["pages"]) for plan in plans] == [40, 40, 20]


def test_a_batch_takes_of_all_streams_in_turn_and_none_waits_for_ever(shared_redis: RedisServer) -> None:
    fill(shared_redis.client, "a", "b", "c")
    spout = RedisStreamSpout(shared_redis.url, ["a", "b", "c"], "n long", maxEntriesPerBatch=2)
    plans: list[Any] = planned(spout)
    taken = [page[0] for plan in plans for page in plan["pages"]]
    assert sorted(taken[:6]) == [*"aabbcc"], "two of three streams in each batch"
    assert read(spout) == sorted(ALL * 3)
    large: list[Any] = planned(RedisStreamSpout(shared_redis.url, ["a", "b", "c"], "n long"))
    assert [page[0] for page in large[0]["pages"]] == [*"bca"] and len(large) == 1


def test_a_long_range_is_cut_for_several_workers(shared_redis: RedisServer) -> None:
    pipe = shared_redis.client.pipeline(transaction=False)
    for n in range(12_500):
        pipe.xadd("s", {"n": n}, id=f"{n + 1}-0")
    pipe.execute()
    spout = RedisStreamSpout(shared_redis.url, "s", "n long")
    (plan,) = planned(spout)
    emission: Any = spout.open().emit(TransactionAttempt(1, 0), plan)
    assert [len(share) for share in emission.shares] == [10, 3] and emission.rows == 12_500
    assert emission.arrow().column("n").to_pylist() == list(range(12_500))


def test_a_lost_reply_is_asked_for_again(shared_redis: RedisServer) -> None:
    fill(shared_redis.client, "s")
    with Proxy(shared_redis.port) as proxy:
        spout = RedisStreamSpout(f"redis://127.0.0.1:{proxy.port}/0", "s", "n long")
        proxy.lose_reply(b"EVAL_RO")
        plans = planned(spout)
        proxy.lose_reply(b"XRANGE")
        assert read(spout, plans) == ALL
        assert proxy.struck == 2


def test_a_server_that_is_away_is_waited_for_and_then_named(tmp_path: Path) -> None:
    server = RedisServer(tmp_path, "always", password="hidden")
    spout = RedisStreamSpout(server.url, "s", "n long", retrySecs=0.3)
    with pytest.raises(SourceUnreadableError, match=r"\*\*\*@127.0.0.1:\d+/0 cannot be read, after 0.3 s of") as caught:
        next_plan(spout.open())
    assert "hidden" not in str(caught.value) and not caught.value.hopeless
    later = threading.Timer(0.5, server.start)
    later.start()
    try:
        patient = RedisStreamSpout(server.url, "s", "n long", retrySecs=20).open()
        assert next_plan(patient) is not None
    finally:
        later.join()
        server.kill()


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[RedisServer]:
    """A server with a password, and a user who may read streams `s` and nothing else."""
    with RedisServer(tmp_path, "none", password="hidden") as server:
        rules = ["on", ">reader", "%R~s*", "+xrange", "+xinfo", "+exists", "+eval_ro", "+info"]
        server.client.execute_command("ACL", "SETUSER", "reader", *rules)  # type: ignore[no-untyped-call]
        server.client.execute_command("ACL", "SETUSER", "weak", "on", ">weak", "~*", "+ping")  # type: ignore[no-untyped-call]
        fill(server.client, "s")
        yield server


@pytest.mark.parametrize(
    ("login", "message"),
    [
        (":wrong@", "rejects the login.*Check user and password in the url"),
        ("", r"(rejects the login|answered).*[Aa]uth"),
        ("weak:weak@", "rejects a command.*The user needs the commands xrange, xinfo, exists, eval_ro and info"),
    ],
)
def test_a_login_that_is_refused_is_named(guarded: RedisServer, login: str, message: str) -> None:
    spout = RedisStreamSpout(f"redis://{login}127.0.0.1:{guarded.port}/0", "s", "n long", retrySecs=5)
    with pytest.raises(SourceUnreadableError, match=message) as caught:
        next_plan(spout.open())
    assert "wrong" not in str(caught.value).replace("WRONGPASS", "")


def test_the_commands_that_the_guide_names_are_enough(guarded: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMS", f"redis://reader:reader@127.0.0.1:{guarded.port}/0")
    spout = RedisStreamSpout("env:STREAMS", "s", "n long", maxEntriesPerBatch=15)
    assert read(spout) == ALL


def test_something_else_under_the_name_is_named(shared_redis: RedisServer) -> None:
    shared_redis.client.set("s", "text")
    with pytest.raises(SourceUnreadableError, match="has a key of this name that is not a stream.*WRONGTYPE"):
        next_plan(RedisStreamSpout(shared_redis.url, "s").open())


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("env:NOT_SET_ANYWHERE", "url='env:NOT_SET_ANYWHERE': the environment variable NOT_SET_ANYWHERE is not set"),
        ("rediss://127.0.0.1:1?ssl_ca_certs=/nowhere", "ssl_ca_certs=/nowhere in the url: there is no such file"),
        ("redis://127.0.0.1:1?foo=bar", "the url has an option 'foo' that redis-py does not know"),
    ],
)
def test_a_url_that_leads_nowhere_is_named(url: str, message: str) -> None:
    with pytest.raises(SourceUnreadableError, match=f"RedisStreamSpout: {message}"):
        next_plan(RedisStreamSpout(url, "s", retrySecs=5).open())


def test_a_log_of_another_spout_is_refused() -> None:
    executor = RedisStreamSpout("redis://127.0.0.1:1", "s").open()
    for metadata in ({"files": []}, 7, {"positions": 3, "pages": 3}):
        with pytest.raises(SpoutContractError, match="cannot replay the batch .* of the log: another spout wrote it"):
            executor.emit(TransactionAttempt(1, 0), metadata)  # type: ignore[arg-type]
        with pytest.raises(SpoutContractError, match="this spout cannot replay the batch"):
            executor.plan(TransactionAttempt(2, 0), metadata, 0.0)  # type: ignore[arg-type]


# --- clusters -----------------------------------------------------------------------------------------------------


def test_the_streams_of_a_cluster_are_found_by_any_of_its_servers(shared_cluster: RedisCluster) -> None:
    streams = [f"{{s{n}}}" for n in range(6)]
    for n, stream in enumerate(streams):
        fill(shared_cluster.holder(f"s{n}").client, stream)
    assert len({shared_cluster.holder(f"s{n}").port for n in range(6)}) > 1
    dead = free_port()
    for server in shared_cluster.servers:
        url = f"redis://127.0.0.1:{dead},127.0.0.1:{server.port}"
        spout = RedisStreamSpout(url, streams, "n long", maxEntriesPerBatch=100)
        assert read(spout) == sorted(ALL * 6)


def test_a_stream_that_moves_to_another_server_is_followed(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, "none", masters=2) as cluster:
        source = cluster.holder("s")
        target = next(server for server in cluster.servers if server is not source)
        fill(source.client, "{s}")
        spout = RedisStreamSpout(cluster.url, "{s}", "n long", maxEntriesPerBatch=10)
        executor = spout.open()
        numbers: list[int] = []
        position: Metadata = None

        def batch(txid: int) -> None:
            nonlocal position
            position = logged(executor.plan(TransactionAttempt(txid, 0), position, 0.0))
            table = executor.emit(TransactionAttempt(txid, 0), position).arrow()
            numbers.extend(table.column("n").to_pylist())

        batch(1)
        cluster.begin_moving("s", target)
        batch(2)
        cluster.move_keys("s", target)
        batch(3)  # ASK: the key is there already, the slot is not
        cluster.end_moving("s", target)
        batch(4)  # MOVED
        assert numbers == ALL


def test_a_master_that_is_replaced_is_found_again(tmp_path: Path) -> None:
    with RedisCluster(tmp_path, "none", masters=1, replicated=True) as cluster:
        fill(cluster.servers[0].client, "s")
        cluster.servers[0].client.wait(1, 10_000)
        spout = RedisStreamSpout(f"{cluster.url},127.0.0.1:{cluster.replicas[0].port}", "s", "n long")
        executor = spout.open()
        plan = next_plan(executor)
        cluster.fail_over(0)
        assert read(spout, [plan]) == ALL
        cluster.replicas[0].client.xadd("s", {"n": 41}, id="41-0")
        second = logged(executor.plan(TransactionAttempt(2, 0), plan, 0.0))
        assert read(spout, [second]) == [41]
        with pytest.raises(redis.ConnectionError):
            cluster.servers[0].client.ping()
