"""States in SQLite and in a real PostgreSQL keep the contract of all stores."""

from collections.abc import Callable
from pathlib import Path

import pytest

from trident.testing.contracts.stores import StoreContract
from trident_state.relational import PostgresMapState, SqliteMapState
from trident_state.state_shape import StateKind
from trident_state.store import StateFactory


class TestSqlite(StoreContract):
    @pytest.fixture
    def factory(self, folder: Path) -> Callable[[StateKind], StateFactory]:
        return lambda kind: SqliteMapState(kind, str(folder / "states.db"))


class TestPostgres(StoreContract):
    @pytest.fixture
    def factory(self, database: str) -> Callable[[StateKind], StateFactory]:
        return lambda kind: PostgresMapState(kind, database)
