from collections.abc import Callable
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident.state import MemoryMapState, RedisMapState


@pytest.fixture(params=["memory", "redis"])
def make_state(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Make opaque states, in memory and in Redis."""
    if request.param == "memory":
        return MemoryMapState.opaque
    server: RedisServer = request.getfixturevalue("shared_redis")
    return lambda **options: RedisMapState.opaque(server.url, buckets=16, **options)
