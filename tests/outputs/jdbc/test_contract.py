"""The contract of outputs, for a table of a database, with and without a key."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.outputs.jdbc.outlets import sink_of
from tests.support.postgres import PostgresServer
from trident.outputs.jdbc.outlet import JdbcOutlet
from trident.outputs.run_identity import RunIdentity
from trident.testing import OutputContract, OutputPlace
from trident.testing.contracts.outputs import OUTPUT, Take

RECORDS = '"public"."_trident_outputs"'


class Rows:
    """A table, and the outputs that were opened for it."""

    def __init__(self, postgres: PostgresServer, name: str, key: tuple[str, ...]) -> None:
        self._postgres, self._name, self._key = postgres, name, key
        postgres.run(f"create table {name} (word text {'primary key' if key else ''})")
        self.opened: list[JdbcOutlet] = []

    def open(self, run: RunIdentity) -> Take:
        sink = sink_of(self._postgres.url, self._name, "word string", OUTPUT, key=self._key)
        self.opened.append(JdbcOutlet(sink, replace(run, topology=self._name), lambda result: [result]))
        return self.opened[-1].take

    def _rows(self, query: str) -> list[Any]:
        with self._postgres.connect() as connection:
            return connection.execute(query.encode()).fetchall()

    def words(self) -> list[str]:
        return [word for (word,) in self._rows(f"select word from {self._name}")]

    def save(self) -> Any:
        record = self._rows(f"select * from {RECORDS} where output = '{self._name}/{OUTPUT}'")
        return self.words(), record

    def restore(self, saved: Any) -> None:
        words, ((*values,),) = saved
        with self._postgres.connect() as connection:
            connection.execute(f"delete from {self._name}".encode())
            connection.execute(f"delete from {RECORDS} where output = '{self._name}/{OUTPUT}'".encode())
            with connection.cursor() as cursor:
                cursor.executemany(f"insert into {self._name} values (%s)".encode(), [(word,) for word in words])
            places = ", ".join(["%s"] * len(values))
            connection.execute(f"insert into {RECORDS} values ({places})".encode(), values)

    def take_away(self) -> None:
        self._postgres.run(f"delete from {self._name}")


class JdbcContract(OutputContract):
    gapless = False
    key: tuple[str, ...] = ()

    @pytest.fixture
    def place(self, postgres: PostgresServer, table: str) -> Iterator[OutputPlace]:  # type: ignore[override]
        made = Rows(postgres, table, self.key)
        yield made
        for each in made.opened:
            each.close()


class TestAppended(JdbcContract):
    pass


class TestByKey(JdbcContract):
    key = ("word",)


del JdbcContract, OutputContract  # pytest would run them
