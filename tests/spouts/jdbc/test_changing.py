"""JdbcSpout keeps the contract of sources that change: a PostgreSQL that is restored from a copy, replaced, or away."""

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from trident.spouts import JdbcSpout
from trident.testing import ChangingSource, SourceContract

URL = "TRIDENT_TEST_CHANGING_URL"


class ChangingTable(ChangingSource):
    """A table, on a server that is restored from copies, or replaced by another server with a table of the name."""

    def __init__(
        self, server: PostgresServer, other: PostgresServer, options: dict[str, Any], patch: pytest.MonkeyPatch
    ) -> None:
        self._servers, self._options, self._patch = [server, other], options, patch
        self._table, self._words = f"t_{uuid.uuid4().hex[:8]}", 0
        self.starts_at_its_end = options.get("startingFrom") == "latest"
        self._make()

    def _make(self) -> None:
        self._patch.setenv(URL, self._servers[0].url)
        self._servers[0].run(
            f"create table {self._table} (id bigserial primary key, at timestamptz default now(), word text)"
        )

    def spout(self) -> JdbcSpout:
        options = {"orderBy": "id", "maxRowsPerBatch": 2, "retrySecs": 2, **self._options}
        if options.pop("query", None):
            options["query"] = f"select id, at, word from {self._table} where word <> ''"
            return JdbcSpout(f"env:{URL}", schema="word string", **options)
        return JdbcSpout(f"env:{URL}", self._table, "word string", **options)

    def add(self, count: int) -> list[tuple[str]]:
        rows = [(f"word {self._words + number}",) for number in range(count)]
        self._words += count
        self._servers[0].run(*(f"insert into {self._table} (word) values ('{word}')" for (word,) in rows))
        return rows

    def copy(self) -> None:
        self._servers[0].copy()

    def restore(self) -> None:
        self._servers[0].restore()

    def replace(self) -> None:
        self._servers[0].kill()
        self._servers.reverse()
        self._make()

    def hide(self) -> None:
        self._servers[0].kill()

    def show(self) -> None:
        self._servers[0].start()


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    with PostgresServer() as server, PostgresServer() as other:
        yield [server, other]


class TestTables(SourceContract):
    options: dict[str, Any] = {}

    @pytest.fixture
    def source(self, servers: list[PostgresServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangingTable]:
        source = ChangingTable(servers[0], servers[1], self.options, monkeypatch)
        yield source
        for server in servers:
            if not server.running:
                server.start()


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
