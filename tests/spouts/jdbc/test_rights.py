"""Users with few rights: each right is asked for by itself, and what is lacking is named with the GRANT."""

from typing import Any

import pytest

from tests.spouts.jdbc.reads import drained, planned
from tests.support.postgres import PostgresServer
from trident.errors import SourceUnreadableError, TopologyError
from trident.spouts import JdbcSpout


class Reader:
    """A user who may read a table, and nothing else."""

    def __init__(self, postgres: PostgresServer, table: str, *made: str) -> None:
        self._postgres, self._table = postgres, table
        made = made or (f"create table {table} (id bigserial primary key, word text)",)
        postgres.run(f"create role {table} login password 'x'", *made, f"grant select on {table} to {table}")

    def opened(self, **options: Any) -> Any:
        url = f"postgresql://{self._table}:x@{self._postgres.place}"
        return JdbcSpout(url, self._table, "word string", **{"orderBy": "id", **options}).open()

    def read(self, position: Any = None) -> tuple[list[Any], Any]:
        """Read on in a run of its own."""
        executor = self.opened()
        try:
            return drained(executor, position)
        finally:
            executor.close()


@pytest.mark.parametrize("function", ["pg_control_system", "pg_control_checkpoint"])
def test_a_function_that_the_user_may_not_call_is_left_out(mortal: PostgresServer, table: str, function: str) -> None:
    reader = Reader(mortal, table)
    mortal.run(f"insert into {table} (word) values ('a')")
    try:
        before = reader.read()
        mortal.run(f"revoke execute on function {function}() from public")
        mortal.restart()
        assert reader.read()[0] == ["a"]
        without = reader.read(before[1])
        assert without[0] == []
        mortal.run(f"insert into {table} (word) values ('b')")
        _, position = reader.read(before[1])
    finally:
        mortal.run(f"grant execute on function {function}() to public")
    assert position is not None
    mortal.run(f"insert into {table} (word) values ('c')")
    assert reader.read(position)[0] == ["c"], "another server is one that was seen, and was another one"


@pytest.mark.parametrize("rights", ["select", "usage", "schema"])
def test_a_sequence_that_is_seen_later_is_no_change(postgres: PostgresServer, table: str, rights: str) -> None:
    reader = Reader(
        postgres, table, f"create schema {table}_s", f"create sequence {table}_s.ids",
        f"create table {table} (id bigint default nextval('{table}_s.ids') primary key, word text)",
        f"insert into {table} (word) select 'old' from generate_series(1, 20)",
    )  # fmt: skip
    read, position = reader.read()
    assert len(read) == 20
    postgres.run(
        f"grant {'usage' if rights == 'usage' else 'select'} on sequence {table}_s.ids to {table}",
        *([f"grant usage on schema {table}_s to {table}"] if rights == "schema" else []),
    )
    assert reader.read(position)[0] == []
    executor = JdbcSpout(postgres.url, table, "word string", orderBy="id").open()
    assert planned(executor, position) is None, "the owner sees the sequence"
    executor.close()
    postgres.run(f"insert into {table} (word) values ('new')")
    assert reader.read(position)[0] == ["new"]


def test_a_sequence_by_name_in_a_schema_that_is_hidden_is_named(postgres: PostgresServer, table: str) -> None:
    reader = Reader(
        postgres, table, f"create schema {table}_s", f"create sequence {table}_s.ids",
        f"create table {table} (id bigint default nextval('{table}_s.ids'::text) primary key, word text)",
        f"insert into {table} (word) values ('a')",
    )  # fmt: skip
    executor = reader.opened()
    with pytest.raises(
        TopologyError, match=f"may not see the source of the values of id.*GRANT USAGE ON SCHEMA {table}_s"
    ):
        planned(executor)
    executor.close()
    postgres.run(f"grant usage on schema {table}_s to {table}")
    assert reader.read()[0] == ["a"]


def test_a_view_over_a_schema_that_is_hidden_names_the_grant(postgres: PostgresServer, table: str) -> None:
    reader = Reader(
        postgres, table, f"create schema {table}_s", f"create table {table}_s.rows (id bigserial, word text)",
        f"create view {table} as select id, word from {table}_s.rows",
        f"insert into {table}_s.rows (word) values ('a')",
    )  # fmt: skip
    executor = reader.opened()
    problem = (
        f"may not see the source of the values of id .*permission denied for schema {table}_s.*GRANT USAGE ON SCHEMA"
    )
    with pytest.raises(TopologyError, match=f"{problem} {table}_s to the user"):
        planned(executor)
    executor.close()
    lagging = reader.opened(isolationLag=3600)
    assert planned(lagging) is None
    lagging.close()
    postgres.run(f"grant usage on schema {table}_s to {table}")
    assert reader.read()[0] == ["a"]


def test_partitions_are_read_as_parts_of_their_table(postgres: PostgresServer, table: str) -> None:
    """The user may read the table, and no partition by itself."""
    reader = Reader(
        postgres, table, f"create table {table} (id bigserial, word text) partition by range (id)",
        f"create table {table}_a partition of {table} for values from (0) to (2)",
        f"insert into {table} (word) values ('a')",
    )  # fmt: skip
    read, position = reader.read()
    postgres.run(
        f"create table {table}_b partition of {table} for values from (2) to (9)",
        f"insert into {table} (word) values ('b')",
    )
    assert read + reader.read(position)[0] == ["a", "b"]


def test_a_right_that_is_needed_is_named(postgres: PostgresServer, table: str) -> None:
    reader = Reader(postgres, table)
    postgres.run(f"revoke select on {table} from {table}")
    executor = reader.opened()
    with pytest.raises(SourceUnreadableError, match=f"permission denied for table {table}; GRANT it to the user"):
        planned(executor)
    executor.close()
