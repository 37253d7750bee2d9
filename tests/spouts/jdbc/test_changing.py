"""JdbcSpout keeps the contract of sources that change: a PostgreSQL that is restored from a copy, replaced, or away."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.changing_postgres import URL, ChangingPostgres
from tests.support.postgres import PostgresServer
from trident.spouts import JdbcSpout
from trident.testing import SourceContract


class ChangingTable(ChangingPostgres):
    """A table that a JdbcSpout with some options reads."""

    def __init__(self, servers: list[PostgresServer], options: dict[str, Any], patch: pytest.MonkeyPatch) -> None:
        self._options = options
        self.starts_at_its_end = options.get("startingFrom") == "latest"
        super().__init__(servers, patch)

    def create(self) -> None:
        self.server.run(
            f"create table {self.table} (id bigserial primary key, at timestamptz default now(), word text)"
        )

    def spout(self) -> JdbcSpout:
        options = {"orderBy": "id", "maxRowsPerBatch": 2, "retrySecs": 2, **self._options}
        if options.pop("query", None):
            options["query"] = f"select id, at, word from {self.table} where word <> ''"
            return JdbcSpout(f"env:{URL}", schema="word string", **options)
        return JdbcSpout(f"env:{URL}", self.table, "word string", **options)


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    with PostgresServer() as server, PostgresServer() as other:
        yield [server, other]


class TestTables(SourceContract):
    options: dict[str, Any] = {}

    @pytest.fixture
    def source(self, servers: list[PostgresServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangingTable]:
        source = ChangingTable(servers, self.options, monkeypatch)
        yield source
        source.close()


@pytest.mark.soak
class TestOpaqueTables(TestTables):
    options = {"kind": "opaque"}


@pytest.mark.soak
class TestTimes(TestTables):
    options = {"orderBy": "at"}


@pytest.mark.soak
class TestQueries(TestTables):
    options = {"query": True}


@pytest.mark.soak
class TestFromTheEndOn(TestTables):
    options = {"startingFrom": "latest"}
