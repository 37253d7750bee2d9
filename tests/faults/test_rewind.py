"""A server that is killed between and inside batches and comes back without its last writes, or without anything."""

import random
import threading
import time
from pathlib import Path

import pytest
import redis

from tests.faults import drive
from tests.faults.source import expected
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.base.errors import StateError
from trident.spouts import FixedBatchSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

TOTAL = 2000
KILLS = 6


class Killer:
    """Kills and restarts a server at random moments; now and then lets it save, which is what it comes back to."""

    def __init__(self, server: RedisServer, seed: int) -> None:
        self.server, self.random = server, random.Random(seed)
        self.kills = 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop)

    def __enter__(self) -> "Killer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _loop(self) -> None:
        client = self.server.connect()
        while self.kills < KILLS and not self._over.wait(self.random.uniform(0.1, 0.8)):
            if self.random.random() < 0.7:
                client.save()
                time.sleep(self.random.uniform(0, 0.1))
            self.server.kill()
            self.kills += 1
            time.sleep(self.random.uniform(0, 0.05))
            self.server.start()


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.soak)])
def test_a_server_that_loses_its_last_writes_again_and_again_is_healed_from_the_frozen_batches(
    kind: str, seed: int, tmp_path: Path
) -> None:
    with RedisServer(tmp_path / "redis", "none") as server:
        case = drive.Case(kind, str(tmp_path / "checkpoint"), server.url, TOTAL)
        with drive.start(case) as running:
            with Killer(server, seed) as killer:
                running.processAllAvailable(timeout=90)
            running.processAllAvailable(timeout=30)
            assert killer.kills >= 3
            found = _settled(running)
        counts, sums, letters = expected(TOTAL)
        assert (found["counts"], found["sums"], found["letters"]) == (counts, sums, letters)


def _settled(running: object) -> dict[str, dict[str, int]]:
    """What the states hold once the last loss is healed: it is noticed within a second."""
    deadline = time.monotonic() + 15
    while True:
        try:
            return {name: dict(running.state(name).items()) for name in ("counts", "sums", "letters")}  # type: ignore[attr-defined]
        except Exception:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.2)


def test_a_server_that_comes_back_empty_is_rebuilt_from_the_log(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", "none") as server:
        case = drive.Case("opaque", str(tmp_path / "checkpoint"), server.url, 600)
        with drive.start(case) as running:
            running.processAllAvailable(timeout=60)
            server.kill()
            server.start()
            assert server.client.dbsize() == 0
            assert _settled(running)["counts"] == expected(600)[0]


def test_redis_errors_are_told_while_a_commit_waits(tmp_path: Path) -> None:
    with RedisServer(tmp_path / "redis", "always") as server:
        case = drive.Case("opaque", str(tmp_path / "checkpoint"), server.url, 60)
        with drive.start(case) as running:
            running.processAllAvailable(timeout=60)
        server.kill()
        with pytest.raises(Exception, match="127.0.0.1"):
            drive.start(case)
        server.start()
        with drive.start(case) as running:
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == expected(60)[0]
        assert isinstance(server.client, redis.Redis)


def test_a_hash_tag_group_that_is_gone_is_rebuilt_by_itself(tmp_path: Path) -> None:
    """As when one node of a cluster comes back empty."""
    with RedisServer(tmp_path / "redis", "none") as server:
        words = [f"w{n}" for n in range(40)]
        topology = TridentTopology()
        stream = topology.newStream("words", FixedBatchSpout("word string", [words, words])).groupBy("word")
        state = RedisMapState.opaque(server.url, groups=4, buckets=16)
        stream.persistentAggregate(state, Count(), "count", name="counts")
        with start_local(topology, name="parts", checkpointLocation=tmp_path / "checkpoint") as running:
            running.processAllAvailable(timeout=20)
            keys = list(server.client.scan_iter())
            tags = sorted({key.split(b"}")[0] for key in keys})
            assert len(tags) == 4
            server.client.delete(*[key for key in keys if key.startswith(tags[1])])
            deadline = time.monotonic() + 10
            while running.isActive and time.monotonic() < deadline:
                try:
                    found = dict(running.state("counts").items())
                except StateError:
                    found = {}
                if len(found) == len(words):
                    break
                time.sleep(0.1)
            assert dict(running.state("counts").items()) == dict.fromkeys(words, 2), running.status
