"""A table of words with a growing number, which a sequence or the program gives, and a stream of its rows."""

from typing import Any

from tests.support.postgres import PostgresServer
from trident.spouts import JdbcSpout

SERIAL = "bigserial primary key"
GIVEN = "bigint primary key"


def filled(postgres: PostgresServer, table: str, kind: str = SERIAL, rows: int = 5) -> None:
    postgres.run(f"create table {table} (id {kind}, word text, done boolean)")
    added(postgres, table, 1, rows)


def added(postgres: PostgresServer, table: str, first: int, last: int, word: str = "word") -> None:
    given = "id, " if f"{table}_id_seq" not in sequences(postgres) else ""
    for n in range(first, last + 1):
        postgres.run(f"insert into {table} ({given}word) values ({f'{n}, ' if given else ''}'{word} {n}')")


def sequences(postgres: PostgresServer) -> list[str]:
    with postgres.connect() as connection:
        return [name for (name,) in connection.execute("select relname from pg_class where relkind = 'S'").fetchall()]


def opened(postgres: PostgresServer, table: str, **options: Any) -> Any:
    return JdbcSpout(postgres.url, table, "word string", **{"orderBy": "id", **options}).open()
