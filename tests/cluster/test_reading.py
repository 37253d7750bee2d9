"""``spark.read.format("trident")`` on a standalone cluster: its executors read states themselves, as of one txid."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.reading import KEYS
from tests.support.server import RedisServer
from tests.support.standalone import StandaloneCluster
from trident.base.java import ensure_java

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]


def test_executors_of_a_cluster_read_states_beside_commits(tmp_path: Path, shared_redis: RedisServer) -> None:
    ensure_java()
    with StandaloneCluster(tmp_path) as cluster:
        command = [sys.executable, "-m", "tests.cluster.reading", cluster.url, str(tmp_path), shared_redis.url]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr[-4000:]
    told = json.loads(done.stdout.strip().splitlines()[-1])
    assert {name: found["partitions"] for name, found in told["found"].items()} == {"memory": 1, "redis": 2, "delta": 2}
    for name, found in told["found"].items():
        (txid,) = found["txids"]
        assert found["values"] == [txid] and 3 <= txid <= told["last"], name
        assert (found["keys"], found["joined"], found["one"]) == (KEYS, KEYS, 1), name
        assert found["executors"] == found["partitions"], name
