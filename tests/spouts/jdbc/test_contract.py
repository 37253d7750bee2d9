"""JdbcSpout keeps the contract of all spouts, in both modes, over a table with equal values and a query."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from trident.spouts import JdbcSpout
from trident.testing import SpoutContract

MakeSpout = Callable[[], Any]
WORDS = "cow moon dog spoon dish fiddle cat laugh run over little sport see".split()
ROWS = [(n, f"2026-01-01 00:00:{n // 3:02d}", word) for n, word in enumerate(WORDS, 1)]


@pytest.fixture(scope="module")
def words(postgres: PostgresServer) -> str:
    """A table of words, three of each second."""
    values = ", ".join(map(str, ROWS))
    postgres.run(
        "drop table if exists contract_words",  # a module's tests may be divided, and its fixtures made twice
        "create table contract_words (id serial primary key, at timestamptz not null default now(), word text)",
        "create index on contract_words (at)",
        f"insert into contract_words values {values}",
        "select setval('contract_words_id_seq', 100)",
    )
    return "contract_words"


@pytest.mark.parametrize(
    "options",
    [
        {"orderBy": "id", "maxRowsPerBatch": 4},
        {"orderBy": "at", "maxRowsPerBatch": 2, "kind": "opaque"},
        {"orderBy": "word", "mode": "snapshot", "maxRowsPerBatch": 3},
    ],
    ids=["by-id", "by-time", "snapshot"],
)
class TestTables(SpoutContract):
    @pytest.fixture
    def make_spout(self, postgres: PostgresServer, words: str, options: dict[str, Any]) -> MakeSpout:
        return lambda: JdbcSpout(postgres.url, words, "id int, word string", **options)

    @pytest.fixture
    def every_row(self) -> list[tuple[int, str]]:
        return [(id, word) for id, _, word in ROWS]


class TestAQueryFromAValueOn(SpoutContract):
    @pytest.fixture
    def make_spout(self, postgres: PostgresServer, words: str) -> MakeSpout:
        query = f"select id, upper(word) as word from {words} where id <> 9"
        return lambda: JdbcSpout(postgres.url, query=query, orderBy="id", startingFrom=5, maxRowsPerBatch=3)

    @pytest.fixture
    def every_row(self) -> list[tuple[int, str]]:
        return [(id, word.upper()) for id, _, word in ROWS if id > 5 and id != 9]
