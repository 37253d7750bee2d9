"""Fixtures of tests that need a PostgreSQL server; a conftest imports those that its folder needs."""

import uuid
from collections.abc import Iterator

import pytest

from tests.support.postgres import PostgresServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """Return one server for the whole run, because a start takes a second or two. It ends with the run."""
    with PostgresServer() as server:
        yield server


@pytest.fixture
def mortal(postgres: PostgresServer) -> Iterator[PostgresServer]:
    """Return the server of the run for a test that may kill it. It is started again after the test, with all tables."""
    yield postgres
    if not postgres.running:
        postgres.start()


@pytest.fixture
def table() -> str:
    """Return a name that no other test uses. The test makes the table."""
    return f"t_{uuid.uuid4().hex[:8]}"
