"""States in SQLite and in a real PostgreSQL keep the contract of all stores."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.state.backing.maps import interrupt_before
from tests.support.postgres import PostgresServer
from trident.testing.contracts.stores import StoreContract
from trident.testing.contracts.stores.ranges import RangeContract
from trident.testing.contracts.stores.starting import StartContract
from trident_state.relational import PostgresMapState, SqliteMapState
from trident_state.state_shape import StateKind
from trident_state.store import StateFactory, Store


class InDatabase(StoreContract):
    @pytest.fixture
    def interrupt(self) -> Callable[[Store, int], None]:
        return interrupt_before


class InSqlite(InDatabase):
    @pytest.fixture
    def factory(self, folder: Path) -> Callable[[StateKind], StateFactory]:
        return lambda kind: SqliteMapState(kind, str(folder / "states.db"))


class TestSqlite(InSqlite):
    kinds = (StateKind.OPAQUE,)


@pytest.mark.soak  # `make test` has the opaque states
class TestSqliteInOtherKinds(InSqlite):
    kinds = (StateKind.TRANSACTIONAL, StateKind.NON_TRANSACTIONAL)


@pytest.mark.soak  # `make test` has the class below, and test_tables.py in both databases
class TestPostgres(InDatabase):
    @pytest.fixture
    def factory(self, database: str) -> Callable[[StateKind], StateFactory]:
        return lambda kind: PostgresMapState(kind, database)

    @pytest.fixture
    def restart(self, shared_postgres: PostgresServer) -> Callable[[], None]:
        return shared_postgres.restart


class TestPostgresStarts(StartContract):
    """The part of the contract that the database does most for: tables that are made, taken over, found, dropped."""

    factory, interrupt = TestPostgres.factory, TestPostgres.interrupt
    kind, setting, storage, store = (
        StoreContract.kind,
        StoreContract.setting,
        StoreContract.storage,
        StoreContract.store,
    )


class TestPostgresRanges(RangeContract):
    """The part of the contract for which the database has statements of its own."""

    factory, interrupt = TestPostgres.factory, TestPostgres.interrupt
    kinds = (StateKind.OPAQUE,)
    kind, setting, storage, store, _skip_other_kinds = (
        StoreContract.kind,
        StoreContract.setting,
        StoreContract.storage,
        StoreContract.store,
        StoreContract._skip_other_kinds,
    )
