"""One cluster for all tests that do it no harm."""

from collections.abc import Iterator

import pytest

from tests.support.cluster import RedisCluster


@pytest.fixture(scope="session")
def _one_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisCluster]:
    with RedisCluster(tmp_path_factory.mktemp("cluster"), "everysec") as cluster:
        yield cluster


@pytest.fixture
def shared_cluster(_one_cluster: RedisCluster) -> RedisCluster:
    """Three masters for the whole run, empty at the start of each test."""
    _one_cluster.flush()
    return _one_cluster
