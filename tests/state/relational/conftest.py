"""One PostgreSQL for all tests of relational states; each test that asks for a database gets an empty one."""

import itertools
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.postgres import PostgresServer

_MEMORY = Path("/dev/shm")  # noqa: S108 (where fsync costs nothing: no power fails here)
_numbers = itertools.count()


@pytest.fixture(scope="session")
def shared_postgres() -> Iterator[PostgresServer]:
    with PostgresServer() as server:
        yield server


@pytest.fixture
def database(shared_postgres: PostgresServer) -> Iterator[str]:
    """Return the url of an empty database."""
    name = f"states{next(_numbers)}"
    shared_postgres.run(f"create database {name} template template0")
    yield shared_postgres.url.removesuffix("postgres") + name
    shared_postgres.run(f"drop database {name} with (force)")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return an empty folder, in memory if the machine has such a place: the states sync every commit."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
