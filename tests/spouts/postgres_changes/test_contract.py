"""PostgresChangesSpout keeps the contract of all spouts, over rows that it begins with and over changes of a slot."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.spouts.postgres_changes.changed_table import ChangedTable
from tests.support.postgres import PostgresServer
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]
STATEMENTS = [
    "insert into T values (1, 'Ann', 10), (2, 'Bob', 20), (3, 'Ann', 30)",
    "update T set price = 11 where id = 1",
    "update T set customer = 'Cy' where id = 2",
    "delete from T where id = 3",
    "insert into T values (3, null, 31)",
]
CHANGES = [
    (1, "Ann", 10, "insert"),
    (2, "Bob", 20, "insert"),
    (3, "Ann", 30, "insert"),
    (1, "Ann", 10, "update_preimage"),
    (1, "Ann", 11, "update_postimage"),
    (2, "Bob", 20, "update_preimage"),
    (2, "Cy", 20, "update_postimage"),
    (3, "Ann", 30, "delete"),
    (3, None, 31, "insert"),
]


@pytest.fixture(scope="module")
def pristine(postgres: PostgresServer) -> Iterator[ChangedTable]:
    """A table with changes after a slot that no test reads. Each spout gets a copy of the slot."""
    postgres.run("drop table if exists contract_orders", "drop publication if exists contract_orders")
    table = ChangedTable(postgres, "contract_orders")
    table.drop_slot()
    table.create()
    table.create_slot()
    table.run(*STATEMENTS)
    yield table
    table.drop_slot()


@pytest.fixture
def slot(pristine: ChangedTable) -> Iterator[str]:
    """The name of a slot for one test, which is dropped after it."""
    table = ChangedTable(pristine.server, "contract_copy")
    yield table.name
    table.drop_slot()


def rewind(pristine: ChangedTable, slot: str) -> None:
    """Let the slot begin where the pristine one does, as if no commit had ever advanced it."""
    ChangedTable(pristine.server, slot).drop_slot()
    pristine.server.run(f"select pg_copy_logical_replication_slot('{pristine.name}', '{slot}')")


class TestChanges(SpoutContract):
    """The slot begins anew with each spout, so a restarted one finds all changes again, also those that it read."""

    @pytest.fixture
    def make_spout(self, pristine: ChangedTable, slot: str) -> MakeSpout:
        def make() -> Any:
            rewind(pristine, slot)
            return pristine.spout(slot=slot, startingFrom="slot", maxRowsPerBatch=3)

        return make

    @pytest.fixture
    def every_row(self) -> list[tuple[Any, ...]]:
        return CHANGES


class TestRowsAndChanges(SpoutContract):
    """The rows at the beginning, in one batch, then nothing: they show all changes of the slot."""

    @pytest.fixture
    def make_spout(self, pristine: ChangedTable, slot: str) -> MakeSpout:
        def make() -> Any:
            rewind(pristine, slot)
            return pristine.spout(slot=slot, maxRowsPerBatch=3)

        return make

    @pytest.fixture
    def every_row(self) -> list[tuple[Any, ...]]:
        return [(1, "Ann", 11, "insert"), (2, "Cy", 20, "insert"), (3, None, 31, "insert")]
