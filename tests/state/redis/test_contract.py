"""The Redis store keeps the contract of all stores, in each of its layouts."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.state.contract import Place, StoreContract
from tests.state.redis.places import RedisPlace
from tests.support.server import RedisServer

LAYOUTS: dict[str, dict[str, Any]] = {
    "packed": {},
    "json": {"values": "json", "buckets": 16},
    "groups": {"groups": 4, "buckets": 64},
}


class TestRedisStore(StoreContract):
    @pytest.fixture(params=LAYOUTS)
    def place(self, request: pytest.FixtureRequest, shared_redis: RedisServer) -> Iterator[Place]:
        place = RedisPlace(shared_redis.url, LAYOUTS[request.param])
        yield place
        place.close()
