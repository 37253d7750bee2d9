"""Fixtures of tests that run topologies over states, which the conftest of each room imports."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident.compiler import keyed_job
from trident.compiler.keyed_job import KeyedJob, KeyedResult
from trident.compiler.spark.state_puts import SparkPuts
from trident.state import MemoryMapState, RedisMapState


@pytest.fixture(params=["memory", "redis"])
def make_state(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Make opaque states, in memory and in Redis."""
    if request.param == "memory":
        return MemoryMapState.opaque
    server: RedisServer = request.getfixturevalue("shared_redis")
    return lambda **options: RedisMapState.opaque(server.url, buckets=16, **options)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the steps that executors update, and let every task have few tuples."""
    steps, making = list[str](), SparkPuts.update

    def noting(puts: SparkPuts, job: KeyedJob) -> KeyedResult:
        steps.append(job.update.step.step)
        return making(puts, job)

    monkeypatch.setattr(SparkPuts, "update", noting)
    monkeypatch.setattr(keyed_job, "TASK_ROWS", 100)
    return steps
