"""Rows and values that the server would leave out without an error are refused, so that the batch stays frozen."""

from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.outputs.jdbc.outlets import outlet
from tests.support.postgres import PostgresServer
from trident import TridentTopology
from trident.errors import OutputRefusedError
from trident.spouts import FeederBatchSpout
from trident.testing.local import start_local

FIELDS = "id long, v string"


def trigger(table: str, event: str, body: str = "return null;") -> list[str]:
    return [
        f"create or replace function {table}_f() returns trigger language plpgsql as $$ begin {body} end $$",
        f"create trigger left_out before {event} on {table} for each row execute function {table}_f()",
    ]


def stored(postgres: PostgresServer, table: str) -> list[Any]:
    with postgres.connect() as connection:
        return connection.execute(f"select * from {table} order by 1".encode()).fetchall()


def batch(*rows: tuple[Any, ...], kinds: bool = False) -> pa.Table:
    names = ["id", "v", *(["_change_type"] if kinds else [])]
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize("fields", [FIELDS, "id long"])
def test_a_row_that_a_trigger_leaves_out_is_refused(
    postgres: PostgresServer, table: str, key: tuple[str, ...], fields: str
) -> None:
    some = trigger(table, "insert", "if new.id = 2 then return null; end if; return new;")
    postgres.run(f"create table {table} (id bigint primary key, v text)", *some)
    made = outlet(postgres.url, table, fields, key=key)
    rows = batch((1, "a"), (2, "b"), (3, "c")).select(fields.split()[0::2])
    with pytest.raises(OutputRefusedError, match=f'1 of its rows are not written: a trigger .*"{table}"'):
        made.take(rows, 1)
    assert stored(postgres, table) == []
    postgres.run(f"drop trigger left_out on {table}")
    made.take(rows, 1)
    assert [row[0] for row in stored(postgres, table)] == [1, 2, 3]
    made.close()


def test_a_row_that_a_rule_leaves_out_is_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (id bigint primary key, v text)",
        f"create rule left_out as on insert to {table} where new.id = 2 do instead nothing",
    )
    made = outlet(postgres.url, table, FIELDS, key=("id",))
    with pytest.raises(OutputRefusedError, match="1 of its rows are not written"):
        made.take(batch((1, "a"), (2, "b")), 1)
    made.close()


@pytest.mark.parametrize("key", ["text", "uuid"])
@pytest.mark.parametrize("event", ["update", "delete"])
def test_a_change_that_a_trigger_leaves_out_is_refused(
    postgres: PostgresServer, table: str, event: str, key: str
) -> None:
    first = "6f1b2d00-0000-0000-0000-000000000001"
    postgres.run(f"create table {table} (id {key} primary key, v text)", *trigger(table, event))
    made = outlet(postgres.url, table, "id string, v string, _change_type string", key=("id",), changes=True)
    made.take(batch((first, "a", "insert"), (first[:-1] + "2", "b", "insert"), kinds=True), 1)
    kind, verb = ("insert", "written") if event == "update" else ("delete", "deleted")
    with pytest.raises(OutputRefusedError, match=f"1 of its rows are not {verb}"):
        made.take(batch((first, "z", kind), (first[:-1] + "3", "c", "insert"), kinds=True), 2)
    assert len(stored(postgres, table)) == 2
    made.close()


def test_keys_alone_that_are_there_already_are_taken(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id bigint primary key)", f"insert into {table} values (1)")
    made = outlet(postgres.url, table, "id long", key=("id",))
    made.take(pa.table({"id": [1, 2]}), 1)
    assert stored(postgres, table) == [(1,), (2,)]
    made.close()


def test_deletions_of_rows_that_a_user_may_not_see_are_refused(postgres: PostgresServer, table: str) -> None:
    role = f"writer_{table}"
    postgres.run(
        f"create schema {table}",
        f"create table {table}.rows (id bigint primary key, v text)",
        f"alter table {table}.rows enable row level security",
        f"create role {role} login password 'x'",
        f"grant all on schema {table} to {role}",
        f"grant all on {table}.rows to {role}",
    )
    url = f"postgresql://{role}:x@{postgres.place}"
    try:
        with pytest.raises(OutputRefusedError, match="has row level security, .*BYPASSRLS"):
            outlet(url, f"{table}.rows", f"{FIELDS}, _change_type string", key=("id",), changes=True)
    finally:
        postgres.run(f"drop owned by {role} cascade", f"drop role {role}")


@pytest.mark.parametrize("key", [(), ("v",)])
@pytest.mark.parametrize(
    ("column", "text", "kept"),
    [
        ("varchar(3)", "abc  ", "ab "),
        ("char(3)", "abc ", "ab "),
        ("char(3)", "a ", "abc"),
        ("char", "a ", " "),
        ("bpchar", None, "a "),
        ("varchar", None, "abc  "),
        ("text", None, "abc  "),
    ],
)
def test_spaces_that_a_column_drops_are_refused(
    postgres: PostgresServer, table: str, column: str, text: str | None, kept: str, key: tuple[str, ...]
) -> None:
    postgres.run(f"create table {table} (v {column} primary key)")
    made = outlet(postgres.url, table, "v string", key=key)
    made.take(pa.table({"v": [kept]}), 1)
    assert stored(postgres, table) == [(kept,)]
    if text is not None:
        with pytest.raises(OutputRefusedError, match=f"field 'v' has the text '{text}', .*drops spaces at the end"):
            made.take(pa.table({"v": ["x", None, text]}), 2)
    made.close()


def test_keys_are_compared_with_the_collation_of_their_column(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create collation {table} (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        f"create table {table} (id text collate {table} primary key, v text)",
    )
    made = outlet(postgres.url, table, "id string, v string, _change_type string", key=("id",), changes=True)
    made.take(batch(("a", "1", "insert"), ("A", "2", "insert"), ("b", "3", "insert"), kinds=True), 1)
    assert stored(postgres, table) == [("A", "2"), ("b", "3")]
    made.take(batch(("B", "3", "delete"), ("A", "2", "delete"), ("a", "4", "insert"), kinds=True), 2)
    assert stored(postgres, table) == [("a", "4")]
    made.close()


@contextmanager
def feeding(postgres: PostgresServer, table: str, fields: str, tmp_path: Path) -> Iterator[Any]:
    topology, feeder = TridentTopology(), FeederBatchSpout(fields)
    topology.newStream("s", feeder).writeJdbc(postgres.url, table, key="id", name=table)
    with start_local(topology, name=table, checkpointLocation=tmp_path, commitRetrySecs=10) as running:

        def feed(*rows: tuple[Any, ...]) -> None:
            feeder.feed(rows)
            running.processAllAvailable(timeout=60)

        yield feed


def test_a_column_that_becomes_narrower_under_a_running_topology_is_refused(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    postgres.run(f"create table {table} (id bigint primary key, v numeric)")

    def run() -> None:
        with feeding(postgres, table, "id long, v decimal(10,3)", tmp_path) as feed:
            feed((1, Decimal("1.000")))
            postgres.run(f"alter table {table} alter v type numeric(10,1)")
            feed((2, Decimal("1.234")))

    with pytest.raises(OutputRefusedError, match=r"is numeric\(10,1\), which would round its values"):
        run()
    assert stored(postgres, table) == [(1, Decimal("1.0"))]


def test_a_table_that_is_altered_and_still_fits_is_written(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    postgres.run(f"create table {table} (id bigint primary key, v numeric)")
    with feeding(postgres, table, "id long, v decimal(10,3)", tmp_path) as feed:
        feed((1, Decimal("1.000")))
        postgres.run(f"alter table {table} alter v type numeric(20,4), add w text default 'w'")
        feed((2, Decimal("1.234")))
    assert stored(postgres, table) == [(1, Decimal("1.0000"), "w"), (2, Decimal("1.2340"), "w")]


@pytest.mark.parametrize("fields", ["id long, v string, _change_type string", "id long, _change_type string"])
def test_a_deletion_leaves_the_rows_of_tables_that_inherit(postgres: PostgresServer, table: str, fields: str) -> None:
    """A unique index of the parent does not hold for its children, so their rows are not the output's."""
    postgres.run(
        f"create table {table} (id bigint primary key, v text)",
        f"create table {table}_child () inherits ({table})",
        f"insert into {table}_child values (1, 'theirs')",
    )
    made = outlet(postgres.url, table, fields, key=("id",), changes=True)
    names = [name.split()[0] for name in fields.split(", ")]
    made.take(batch((1, "a", "insert"), (2, "b", "insert"), kinds=True).select(names), 1)
    made.take(batch((1, "a", "delete"), kinds=True).select(names), 2)
    assert [row[0] for row in stored(postgres, f"only {table}")] == [2]
    assert stored(postgres, f"{table}_child") == [(1, "theirs")]
    made.close()
