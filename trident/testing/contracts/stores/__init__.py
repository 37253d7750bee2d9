"""The contract of stores, as tests over the `Store` protocol.

The tests of a store inherit the tests of `StoreContract`::

    class TestMyStore(StoreContract):
        @pytest.fixture
        def factory(self):
            return lambda kind: BackingMapState(kind, MyMap)

If some commits of a store are not durable, or if the store can be opened in several ways, define the fixture `storage`
instead of `factory`.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from trident.testing.contracts.stores.expiring import ExpiryContract
from trident.testing.contracts.stores.fixtures import (
    FIRST,
    KINDS,
    SECOND,
    FactoryStorage,
    FileHome,
    Setting,
    Storage,
)
from trident.testing.contracts.stores.history import HistoryContract
from trident.testing.contracts.stores.model import ModelContract
from trident.testing.contracts.stores.ranges import RangeContract
from trident.testing.contracts.stores.reading import ReadContract
from trident.testing.contracts.stores.starting import StartContract
from trident.testing.contracts.stores.values import ValueContract
from trident.testing.contracts.stores.writing import WriteContract
from trident_state.state_shape import StateKind
from trident_state.store import StateFactory, Store


class StoreContract(StartContract, WriteContract, ReadContract, RangeContract, ValueContract, ModelContract):
    """The contract of a store after a crash, a replay, a lost reply, a rewind and a second driver, as tests.

    Inherit it as ``class TestMyStore(StoreContract)`` and define the fixture `factory`: a function from a `StateKind`
    to a state factory of states that are empty when a test begins. Stores with expiring values also inherit
    `ExpiryContract`, and stores that keep more than two txids `HistoryContract`.
    """

    kinds: ClassVar[tuple[StateKind, ...]] = KINDS
    """The kinds of state that the store has; tests of other kinds are skipped."""

    @pytest.fixture
    def factory(self) -> Callable[[StateKind], StateFactory]:
        raise NotImplementedError(f"{type(self).__name__}: define the fixture 'factory' (or 'storage')")

    @pytest.fixture
    def storage(self, factory: Callable[[StateKind], StateFactory], tmp_path: Path) -> Iterator[Storage]:
        storage = FactoryStorage(factory, tmp_path)
        yield storage
        storage.close()

    @pytest.fixture
    def interrupt(self) -> Callable[[Store, int], None] | None:
        """Return a function that makes a store raise StateUnavailableError before its nth request that may write.

        Without it, the test of interrupted drops is skipped.
        """
        return None

    @pytest.fixture
    def restart(self) -> Callable[[], None] | None:
        """Return a function that restarts the store's server, which loses no write.

        Without it, the test of a scan that continues over a restart is skipped.
        """
        return None

    @pytest.fixture
    def kind(self) -> StateKind:
        return StateKind.OPAQUE

    @pytest.fixture
    def setting(self, storage: Storage, kind: StateKind) -> Setting:
        return Setting(storage, kind)

    @pytest.fixture
    def store(self, setting: Setting) -> Store:
        return setting.started()

    @pytest.fixture(autouse=True)
    def _skip_other_kinds(self, request: pytest.FixtureRequest) -> None:
        params = getattr(request.node, "callspec", None)
        values = () if params is None else params.params.values()
        parts = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        missing = [part for part in parts if isinstance(part, StateKind) and part not in self.kinds]
        if missing:
            pytest.skip(f"the store has no {missing[0].value} states")


__all__ = [
    "FIRST",
    "SECOND",
    "ExpiryContract",
    "FactoryStorage",
    "FileHome",
    "HistoryContract",
    "Setting",
    "Storage",
    "StoreContract",
]
