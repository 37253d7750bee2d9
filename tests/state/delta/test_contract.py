"""States in Delta tables keep the contract of all stores."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from trident.base.errors import StateUnavailableError
from trident.testing.contracts.stores import ExpiryContract, FactoryStorage, HistoryContract, StoreContract
from trident_state.delta import DeltaMapState
from trident_state.state_shape import StateKind
from trident_state.store import Store


@dataclass
class DeltaStorage(FactoryStorage):
    """States in Delta tables in a folder, with a time to live if one is given."""

    ttl: float | None = None

    def with_ttl(self, seconds: float) -> "DeltaStorage":
        storage = replace(self, ttl=seconds)
        storage.factory = lambda kind: DeltaMapState(kind, str(self.folder), ttlSecs=seconds)
        return storage


def interrupt_before(store: Any, number: int) -> None:
    """Let write number `number` to the table of a store fail before it does anything."""
    writes = itertools.count(1)
    for name in ("commit", "delete_files"):
        work = getattr(store._table, name)

        def counted(*args: Any, work: Any = work, **options: Any) -> Any:
            if next(writes) == number:
                raise StateUnavailableError("interrupted")
            return work(*args, **options)

        setattr(store._table, name, counted)


class InDelta(StoreContract, ExpiryContract, HistoryContract):
    def settle(self, store: Any) -> None:
        store.upkeep.run()
        store.upkeep.cleaner.clean()

    @pytest.fixture
    def interrupt(self) -> Callable[[Store, int], None]:
        return interrupt_before

    @pytest.fixture
    def storage(self, folder: Path) -> Any:
        storage = DeltaStorage(lambda kind: DeltaMapState(kind, str(folder)), folder)
        yield storage
        storage.close()


class TestDelta(InDelta):
    kinds = (StateKind.OPAQUE,)


@pytest.mark.soak  # `make test` has the opaque states
class TestDeltaTransactional(InDelta):
    kinds = (StateKind.TRANSACTIONAL,)
