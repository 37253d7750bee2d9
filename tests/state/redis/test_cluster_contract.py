"""A state on a Redis Cluster of three masters keeps the contract of all stores."""

from collections.abc import Iterator

import pytest

from tests.state.redis.storage import RedisStorage
from tests.state.redis.test_contract import InGroups
from tests.support.cluster import RedisCluster
from trident_state.redis import writer


class TestCluster(InGroups):
    """An update goes in slices of few keys."""

    @pytest.fixture(autouse=True)
    def slices(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(writer, "SLICE_KEYS", 3)

    @pytest.fixture
    def storage(self, shared_cluster: RedisCluster) -> Iterator[RedisStorage]:
        storage = RedisStorage(shared_cluster.url, {"groups": 8, "buckets": 64})
        yield storage
        storage.close()
