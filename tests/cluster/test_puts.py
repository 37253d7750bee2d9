"""Executors that put a batch into Redis fail and die after puts that were confirmed: every count is right."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster import puts
from tests.support.objects import Objects, objects, s3_server
from tests.support.server import RedisServer

pytestmark = [pytest.mark.spark, pytest.mark.cluster]
ROOT = Path(__file__).parents[2]
__all__ = ["objects", "s3_server"]


MASTERS = [
    ("local[2,4]", "fails,twice,worker"),
    ("local-cluster[2,1,1024]", "fails,executor,twice,worker"),
]


@pytest.mark.soak
@pytest.mark.parametrize(("master", "troubles"), MASTERS)
def test_counts_are_exact_where_tasks_fail_and_executors_die_after_their_puts(
    master: str, troubles: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    check(master, troubles, tmp_path, shared_redis)


@pytest.mark.soak
@pytest.mark.parametrize(("master", "troubles"), MASTERS)
def test_counts_are_exact_where_the_files_are_objects(
    master: str, troubles: str, tmp_path: Path, shared_redis: RedisServer, objects: Objects
) -> None:
    check(master, troubles, tmp_path, shared_redis, json.dumps(objects.options))
    assert objects.names("puts/frozen"), "the executors wrote there"
    assert not (tmp_path / "checkpoint" / "puts" / "frozen").exists()


def check(master: str, troubles: str, tmp_path: Path, redis: RedisServer, *files: str) -> None:
    command = [sys.executable, "-m", "tests.cluster.puts", str(tmp_path), redis.url, master, troubles, *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr[-4000:]
    results = json.loads(done.stdout.strip().splitlines()[-1])
    assert results["found"] == puts.expected()
    assert results["writers"] == ["executors"]
    for trouble in set(troubles.split(",")) - {"twice"}:
        assert any(mark.endswith(trouble) for mark in results["troubled"]), trouble
