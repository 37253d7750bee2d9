"""A server with logical replication for all tests of this folder, and a table with its publication for each test."""

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="tests of PostgresChangesSpout need the package psycopg")

from tests.spouts.postgres_changes.changed_table import ChangedTable  # noqa: E402
from tests.support.postgres import LOGICAL, PostgresServer  # noqa: E402
from tests.support.postgres_fixtures import mortal as mortal  # noqa: E402


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run, because a start takes a second or two. It ends with the run."""
    with PostgresServer(*LOGICAL) as server:
        yield server


@pytest.fixture
def orders(postgres: PostgresServer) -> Iterator[ChangedTable]:
    """A table of orders with a publication, and a name for the slot, which is dropped after the test."""
    table = ChangedTable(postgres, f"orders_{uuid.uuid4().hex[:8]}")
    table.create()
    yield table
    table.drop_slot()
