"""Where the tests' states lie: a server of their own."""

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from tests.support.one_by_one import OneByOne
from trident.base.attempt import Lease
from trident.base.errors import StateUnavailableError
from trident.files.store import FileStore
from trident_state.redis import RedisMapState, RedisStore
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store import Store


class NoHome:
    """A run that lends nothing: a state in a server needs none of it."""

    @property
    def files(self) -> FileStore | None:
        return None

    def manifest(self) -> bytes | None:
        return None

    def publish(self, manifest: bytes, lease: Lease) -> None:
        raise AssertionError("a state in Redis publishes nothing")


def interrupt_before(store: Store, number: int) -> None:
    """Let request number `number` of a store's writer fail before it is sent."""
    assert isinstance(store, RedisStore)
    exchange, requests = store._link.exchange, itertools.count(1)

    def counted(commands: Iterable[bytes]) -> list[Any]:
        if next(requests) == number:
            raise StateUnavailableError("interrupted")
        return exchange(commands)

    store._link.exchange = counted  # type: ignore[method-assign]
    store._link.pipeline = lambda: OneByOne(counted)  # type: ignore[method-assign,return-value,assignment]


@dataclass
class RedisStorage:
    """A server, and how states are kept there."""

    url: str
    options: dict[str, Any] = field(default_factory=dict)
    opened: list[RedisStore] = field(default_factory=list)

    def open(self, identity: StateIdentity, shape: StateShape, kind: StateKind) -> RedisStore:
        store = RedisMapState(kind, self.url, **self.options).open(identity, shape, NoHome())
        self.opened.append(store)
        return store

    def with_ttl(self, seconds: float) -> "RedisStorage":
        return replace(self, options={**self.options, "ttlSecs": seconds})

    def secure(self, store: Store) -> None:
        pass

    def close(self) -> None:
        for store in self.opened:
            store.close()
