"""PostgresChangesSpout keeps the contract of sources that change: a server that is restored, replaced, or away."""

from collections.abc import Iterator

import pytest

from tests.spouts.postgres_changes.changed_table import ChangedTable
from tests.support.changing_postgres import URL, ChangingPostgres
from tests.support.postgres import LOGICAL, PostgresServer
from trident.spouts import PostgresChangesSpout
from trident.testing import SourceContract


class ChangingChanges(ChangingPostgres):
    """A table and its slot, on a server that is restored with its slots."""

    def create(self) -> None:
        table = ChangedTable(self.server, self.table)
        table.create("id bigserial primary key, word text")
        table.create_slot()

    def spout(self) -> PostgresChangesSpout:
        options = {"slot": self.table, "publication": self.table, "maxRowsPerBatch": 2, "retrySecs": 2}
        return PostgresChangesSpout(f"env:{URL}", self.table, "word string", **options)

    def emitted(self, word: str) -> tuple[str, str]:
        return word, "insert"

    def copy(self) -> None:
        self.server.copy_at_rest()

    def close(self) -> None:
        super().close()
        for server in self.servers:
            ChangedTable(server, self.table).drop_slot()


@pytest.fixture(scope="module")
def servers() -> Iterator[list[PostgresServer]]:
    with PostgresServer(*LOGICAL) as server, PostgresServer(*LOGICAL) as other:
        yield [server, other]


class TestChanges(SourceContract):
    @pytest.fixture
    def source(self, servers: list[PostgresServer], monkeypatch: pytest.MonkeyPatch) -> Iterator[ChangingChanges]:
        source = ChangingChanges(servers, monkeypatch)
        yield source
        source.close()
