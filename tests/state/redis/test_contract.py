"""The Redis store keeps the contract of all stores, in each of its layouts."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.state.redis.storage import RedisStorage, interrupt_before
from tests.support.server import RedisServer
from trident.base.errors import StateValueError
from trident.testing.contracts.stores import ExpiryContract, Setting, Storage, StoreContract
from trident.testing.contracts.stores.fixtures import COUNT, every_kind, marker
from trident_state.state_shape import Combine, StateKind
from trident_state.store import Store


class InterruptedContract(StoreContract, ExpiryContract):
    """The contract with drops that are interrupted before each of their requests."""

    @pytest.fixture
    def interrupt(self) -> Callable[[Store, int], None]:
        return interrupt_before


class TestPacked(InterruptedContract):
    @pytest.fixture
    def storage(self, shared_redis: RedisServer) -> Iterator[Storage]:
        yield from _storage(shared_redis)


class TestJson(InterruptedContract):
    @pytest.fixture
    def storage(self, shared_redis: RedisServer) -> Iterator[Storage]:
        yield from _storage(shared_redis, values="json", buckets=4)

    @pytest.fixture
    def restart(self, shared_redis: RedisServer) -> Callable[[], None]:
        """Each of the four buckets is too large for one reply, so that a scan continues in the middle of a bucket."""
        return lambda: shared_redis.restart(kill=False)


class InGroups(InterruptedContract):
    """What a state in several hash tags must do."""

    @every_kind
    @pytest.mark.parametrize("native", ["sum", None])
    def test_a_sum_beyond_the_type_is_refused_and_does_not_wrap_around(
        self, storage: Storage, kind: StateKind, native: Any
    ) -> None:
        """Other groups may have put when one refuses, so that the latest values are not the committed ones."""
        setting = Setting(storage, kind, combine=Combine("Sum", COUNT.function, native))
        store = setting.started()
        setting.apply(store, 1, {1: 1, 2: 2**63 - 2, 3: -(2**63)})
        setting.apply(store, 2, {1: 2**53, 2: 1})
        with pytest.raises(StateValueError, match="state 'counts'.*Sum"):
            setting.apply(store, 3, {1: 5, 2: 1})
        assert marker(store) == 2
        if kind is StateKind.NON_TRANSACTIONAL:
            assert setting.read(store, [2, 3], None) == [2**63 - 1, -(2**63)]
        else:
            assert setting.read(store, [1, 2, 3], 2) == [2**53 + 1, 2**63 - 1, -(2**63)]


@pytest.mark.soak  # `make test` has this layout on three servers: test_cluster_contract.py
class TestGroups(InGroups):
    @pytest.fixture
    def storage(self, shared_redis: RedisServer) -> Iterator[Storage]:
        yield from _storage(shared_redis, groups=4, buckets=64)


def _storage(server: RedisServer, **options: Any) -> Iterator[Storage]:
    storage = RedisStorage(server.url, options)
    yield storage
    storage.close()
