"""PostgresChangesSpout keeps the contract of sources that change: a server that is restored, replaced, or away."""

import uuid
from collections.abc import Iterator

import pytest

from tests.spouts.postgres_changes.changed_table import ChangedTable
from tests.support.postgres import LOGICAL, PostgresServer
from trident.spouts import PostgresChangesSpout
from trident.testing import ChangingSource, SourceContract

URL = "TRIDENT_TEST_CHANGING_URL"


class ChangingChanges(ChangingSource):
    """A table and its slot, on a server that is restored with its slots, or replaced by another server."""

    def __init__(self, server: PostgresServer, other: PostgresServer, patch: pytest.MonkeyPatch) -> None:
        self._servers, self._patch = [server, other], patch
        self._name, self._words = f"t_{uuid.uuid4().hex[:8]}", 0
        self._make()

    @property
    def _table(self) -> ChangedTable:
        return ChangedTable(self._servers[0], self._name)

    def _make(self) -> None:
        self._patch.setenv(URL, self._servers[0].url)
        self._table.create("id bigserial primary key, word text")

    def spout(self) -> PostgresChangesSpout:
        return PostgresChangesSpout(
            f"env:{URL}",
            self._name,
            "word string",
            slot=self._name,
            publication=self._name,
            maxRowsPerBatch=2,
            retrySecs=2,
        )

    def add(self, count: int) -> list[tuple[str, str]]:
        words = [f"word {self._words + number}" for number in range(count)]
        self._words += count
        self._table.run(*(f"insert into {self._name} (word) values ('{word}')" for word in words))
        return [(word, "insert") for word in words]

    def copy(self) -> None:
        self._servers[0].copy_at_rest()

    def restore(self) -> None:
        self._servers[0].restore()

    def replace(self) -> None:
        self._servers[0].kill()
        self._servers.reverse()
        self._make()
        self._table.create_slot()

    def hide(self) -> None:
        self._servers[0].kill()

    def show(self) -> None:
        self._servers[0].start()

    def close(self) -> None:
        for server in self._servers:
            if not server.running:
                server.start()
            ChangedTable(server, self._name).drop_slot()


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    with PostgresServer(*LOGICAL) as server, PostgresServer(*LOGICAL) as other:
        yield [server, other]


class TestChanges(SourceContract):
    @pytest.fixture
    def source(self, servers: list[PostgresServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangingChanges]:
        source = ChangingChanges(servers[0], servers[1], monkeypatch)
        yield source
        source.close()
