"""A server for all tests of this folder, and a table's name for each."""

import uuid
from collections.abc import Iterator

import pytest

pytest.importorskip("psycopg", reason="tests of writeJdbc need the package psycopg")

from tests.support.postgres import PostgresServer  # noqa: E402


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the whole run, because a start takes a second or two. It ends with the run."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def mortal(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """The same server, which the test may kill; it runs again after the test, with all tables."""
    yield postgres
    if not postgres.running:
        postgres.start()


@pytest.fixture
def table() -> str:
    """A name that no other test has; the table is to be made."""
    return f"t_{uuid.uuid4().hex[:8]}"
