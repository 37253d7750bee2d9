"""How old an answer is: when the batch that it shows was committed."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.server.conftest import Serving
from tests.server.counting import counting
from tests.support.server import RedisServer
from trident import DRPCClient, openTopology
from trident.access.opened_topology import OpenedTopology
from trident.log.sqlite_log import SqliteLog
from trident.server.http_server import Server, serve
from trident.state import MemoryMapState, RedisMapState, StateFactory


def test_an_answer_tells_when_its_batch_was_committed(serving: Serving) -> None:
    before = datetime.now(UTC) - timedelta(milliseconds=1)  # an answer shows milliseconds
    serving.feed("dog")
    after = datetime.now(UTC)
    time.sleep(0.2)
    for told in (
        serving.post("/drpc/count", {"args": ["dog"]}).json(),
        serving.get("/state/counts/dog").json(),
        serving.post("/state/counts", {"keys": ["dog"]}).json(),
        serving.get("/state/counts?limit=5").json(),
        serving.get("/state/counts?top=1").json(),
    ):
        assert told["asOfTxid"] == {"words": 2}
        committed = datetime.fromisoformat(told["committedAt"]["words"])
        assert before <= committed <= after
        age = (datetime.now(UTC) - committed) / timedelta(milliseconds=1)
        assert 200 <= told["stalenessMs"] <= age + 1
    with serving.client() as client:
        rows = client.execute("count", "dog")
        assert rows.committedAt == {"words": committed}
        assert rows.stalenessMs is not None and rows.stalenessMs >= 200


def test_requests_of_one_moment_share_a_look_into_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    topology, feeder = counting()
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog",)])
        running.processAllAvailable()
    looks, asked = list[int](), threading.Barrier(8)
    commit_time = SqliteLog.commit_time

    def slow(log: SqliteLog, group: str, txid: int) -> float | None:
        looks.append(txid)
        time.sleep(0.3)
        return commit_time(log, group, txid)

    monkeypatch.setattr(SqliteLog, "commit_time", slow)

    def ask(url: str) -> dict[str, datetime | None]:
        with DRPCClient(url) as client:
            asked.wait()
            return client.execute("count", "dog").committedAt

    with (
        openTopology(topology, name="wc", checkpointLocation=tmp_path) as opened,
        served(opened) as server,
        ThreadPoolExecutor(8) as clients,
    ):
        told = [each["words"] for each in clients.map(ask, [server.url] * 8)]
    assert looks == [1]
    assert told == [told[0]] * 8 and told[0] is not None


def test_before_the_first_batch_there_is_no_time(tmp_path: Path) -> None:
    topology, _ = counting()
    with (
        topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running,
        running.serve() as server,
        DRPCClient(server.url) as client,
    ):
        rows = client.execute("count", "dog")
    assert (rows.txids, rows.committedAt, rows.stalenessMs) == ({"words": 0}, {"words": None}, None)


def served(opened: OpenedTopology) -> Server:
    return serve(opened, 0, "127.0.0.1", None, (), None, insecure=False)


@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_a_server_without_a_driver_reads_it_from_the_log(kind: str, shared_redis: RedisServer, tmp_path: Path) -> None:
    factory: StateFactory = MemoryMapState.opaque() if kind == "memory" else RedisMapState.opaque(shared_redis.url)
    topology, feeder = counting(factory)
    with topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running:
        feeder.feed([("dog",)])
        running.processAllAvailable()
        here = running.commitTimes("words").of(1)
    assert here is not None and abs(time.time() - here) < 60
    with (
        openTopology(topology, name="wc", checkpointLocation=tmp_path) as opened,
        served(opened) as server,
        DRPCClient(server.url) as client,
    ):
        rows = client.execute("count", "dog")
        committed = datetime.fromtimestamp(here, UTC).isoformat(timespec="milliseconds")
        assert rows.committedAt == {"words": datetime.fromisoformat(committed)}
    if kind == "redis":
        with openTopology(topology, name="wc") as opened, served(opened) as server, DRPCClient(server.url) as client:
            rows = client.execute("count", "dog")  # the log was not given
            assert (rows.txids, rows.committedAt, rows.stalenessMs) == ({"words": 1}, {"words": None}, None)
