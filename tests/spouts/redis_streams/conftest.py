"""One cluster for all tests that do it no harm."""

from tests.state.redis.conftest import _one_cluster, shared_cluster

__all__ = ["_one_cluster", "shared_cluster"]
