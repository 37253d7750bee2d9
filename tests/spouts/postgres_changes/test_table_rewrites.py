"""Rows that DDL brings, removes or rewrites are not in the log of changes: the stream stops, and loses none of them."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained
from tests.support.postgres import PostgresServer
from trident.errors import SourceChangedError, SourceUnreadableError

FIELDS = "id long, city string"


@pytest.fixture
def parted(postgres: PostgresServer) -> Iterator[ChangedTable]:
    """A table with the partitions T_a (keys 0 to 9, two rows) and T_b (10 to 19, empty), and its publication."""
    table = ChangedTable(postgres, f"parted_{uuid.uuid4().hex[:8]}")
    table.run(
        f"create table {table.name} (id bigint, city text) partition by range (id)",
        f"create table {table.name}_a partition of {table.name} for values from (0) to (10)",
        f"create table {table.name}_b partition of {table.name} for values from (10) to (20)",
        *(f"alter table {table.name}{part} replica identity full" for part in ("", "_a", "_b")),
        f"create publication {table.name} for table {table.name} with (publish_via_partition_root = true)",
        "insert into T values (1, 'Rome'), (2, 'Oslo')",
    )
    yield table
    table.drop_slot()


def read_all(table: ChangedTable, schema: str = FIELDS) -> Any:
    with closing(table.spout(schema).open()) as executor:
        return drained(executor)[1]


def after(table: ChangedTable, position: Any, schema: str = FIELDS, **options: Any) -> list[tuple[Any, ...]]:
    """Return the tuples that follow a position."""
    with closing(table.spout(schema, **options).open()) as executor:
        return changes(executor, planned(executor, position))


_NEW = "create table T_c (id bigint, city text); alter table T_c replica identity full"
_ATTACH = "alter table T attach partition T_c for values from (20) to (30)"
_FILL = "insert into T_c values (21, 'lost')"


@pytest.mark.parametrize(
    ("statements", "told"),
    [
        ("truncate T_a", "T_a was truncated or rewritten"),
        ("truncate T_a; insert into T values (3, 'Bonn')", "T_a was truncated or rewritten"),
        ("begin; truncate T_a; insert into T values (3, 'Bonn'); commit", "T_a was truncated or rewritten"),
        ("alter table T detach partition T_a", "was dropped or detached"),
        ("drop table T_a", "was dropped or detached"),
        (f"{_NEW}; {_FILL}; {_ATTACH}", "T_c had rows when it was attached"),
        (f"begin; {_NEW}; {_FILL}; {_ATTACH}; commit", "T_c had rows when it was attached"),
        (f"{_NEW}; {_FILL}; create table T_d (id bigint, city text) partition by range (id); alter table T_d replica "
         f"identity full; {_ATTACH.replace('T attach', 'T_d attach')}; {_ATTACH.replace('T_c', 'T_d')}",
         "T_c had rows when it was attached"),
        ("alter table T detach partition T_a; insert into T_a values (4, 'lost'); alter table T attach partition T_a "
         "for values from (0) to (10)", "T_a had rows when it was attached"),
    ],
    ids=["truncated", "truncated-filled", "at-once", "detached", "dropped", "attached", "attached-at-once",
         "attached-below", "away-and-back"],
)  # fmt: skip
def test_partitions_that_bring_or_remove_rows_stop_the_stream(parted: ChangedTable, statements: str, told: str) -> None:
    position = read_all(parted)
    parted.run("insert into T values (9, 'Kyiv')")
    with parted.server.connect() as connection:
        for statement in statements.split(";"):
            connection.execute(statement.strip().replace(" T", f" {parted.name}").encode())
    parted.run("insert into T values (11, 'Graz')")
    with pytest.raises(SourceChangedError, match=told.replace("T_", f"{parted.name}_")):
        after(parted, position)


@pytest.mark.parametrize(
    "statements",
    [
        "vacuum full T_a",
        "create table T_c partition of T for values from (20) to (30); alter table T_c replica identity full",
        f"{_NEW}; {_ATTACH}",
        f"{_NEW}; {_ATTACH}; insert into T values (21, 'Bern'); delete from T where id = 21",
        f"begin; {_NEW}; {_ATTACH}; insert into T values (21, 'Bern'); delete from T where id = 21; commit",
        "insert into T values (12, 'Linz'); alter table T add n uuid default gen_random_uuid()",
        "update T set id = 11 where id = 1; update T set id = 1 where id = 11",
    ],
    ids=["vacuum", "created", "attached", "attached-filled", "filled-at-once", "rewritten", "moved"],
)
def test_partitions_whose_rows_are_all_in_the_log_go_on(parted: ChangedTable, statements: str) -> None:
    position = read_all(parted)
    with parted.server.connect() as connection:
        for statement in statements.split(";"):
            connection.execute(statement.strip().replace(" T", f" {parted.name}").encode())
    parted.run("insert into T values (11, 'Graz')")
    assert after(parted, position)[-1] == (11, "Graz", "insert")


def test_partitions_that_are_known_are_kept_with_the_position(parted: ChangedTable) -> None:
    position = read_all(parted)
    for statement in (f"create table {parted.name}_c partition of {parted.name} for values from (20) to (30)",
                      f"alter table {parted.name}_c replica identity full"):  # fmt: skip
        parted.run(statement)
    with closing(parted.spout(FIELDS).open()) as executor:
        parted.run("insert into T values (21, 'Bern')")
        _, position = drained(executor, position)
    parted.run(f"truncate {parted.name}_c", "insert into T values (11, 'Graz')")
    with pytest.raises(SourceChangedError, match="_c was truncated"):
        after(parted, position)


def test_rows_of_partitions_that_went_may_stay(parted: ChangedTable) -> None:
    position = read_all(parted)
    parted.run(f"drop table {parted.name}_a", f"truncate {parted.name}_b", "insert into T values (11, 'Graz')")
    assert after(parted, position, onTruncate="skip") == [(11, "Graz", "insert")]


@pytest.mark.parametrize(("kind", "told"), [("unlogged", "an unlogged table"), ("foreign", "a foreign table")])
def test_a_partition_without_a_log_is_refused(parted: ChangedTable, kind: str, told: str) -> None:
    position, end = read_all(parted), ""
    if kind == "foreign":
        parted.server.run("create extension if not exists file_fdw")
        parted.server.run(f"create server {parted.name} foreign data wrapper file_fdw")
        end = f" server {parted.name} options (filename '/dev/null')"
    parted.run(f"create {kind} table {parted.name}_c partition of {parted.name} for values from (20) to (30){end}")
    if kind == "unlogged":
        parted.run(f"alter table {parted.name}_c replica identity full", "insert into T values (21, 'lost')")
    with pytest.raises(SourceUnreadableError, match=f"its partition {parted.name}_c is {told}"):
        after(parted, position)


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        ("timestamp(3)", "2026-01-01 00:00:00.6", "timestamp(0)"),
        ("time", "10:00:00.6", "time(0)"),
        ("numeric(10, 1)", "1.2", "numeric(10, 2)"),
        ("numeric", "1.25", "numeric(10, 1)"),
        ("char(3)", "a", "char(5)"),
        ("text", "abc", "varchar(2) using left(city::text, 2)"),
        ("varchar(9)", "abc", "varchar(2) using left(city, 2)"),
        ("numeric(10, 2)[]", "{1.25}", "numeric(10, 1)[]"),
    ],
)
def test_a_modifier_that_may_change_values_stops_the_stream(
    orders: ChangedTable, kind: str, value: str, other: str
) -> None:
    orders.run(f"alter table T add city {kind}", f"insert into T (id, city) values (1, '{value}')")
    position = read_all(orders)
    orders.run(f"alter table T alter city type {other}", "delete from T")
    with pytest.raises(SourceChangedError, match="column 'city' was altered"):
        after(orders, position)


@pytest.mark.parametrize(
    ("kind", "value", "other"),
    [
        ("timestamp(3)", "2026-01-01 00:00:00.6", "timestamp(4)"),
        ("timestamp(3)", "2026-01-01 00:00:00.6", "timestamp"),
        ("timestamp", "2026-01-01 00:00:00.6", "timestamp(6)"),
        ("numeric(10, 2)", "1.25", "numeric(8, 2)"),
        ("numeric(10, 2)", "1.25", "numeric"),
        ("varchar(9)", "abc", "varchar(10)"),
    ],
)
def test_a_modifier_that_keeps_all_values_goes_on(orders: ChangedTable, kind: str, value: str, other: str) -> None:
    orders.run(f"alter table T add city {kind}", f"insert into T (id, city) values (1, '{value}')")
    position = read_all(orders)
    orders.run(f"alter table T alter city type {other}", "delete from T")
    assert after(orders, position) == [(1, value, "delete")]


def test_labels_of_an_enumeration_may_be_added_and_not_renamed(orders: ChangedTable) -> None:
    kind = f"{orders.name}_kind"
    orders.server.run(f"create type {kind} as enum ('new', 'old')")
    orders.run(f"alter table T add city {kind}, add cities {kind}[]", "insert into T values (1, '', 0, 'new', '{new}')")
    for schema in ("id long, city string", "id long, cities string"):
        position = read_all(orders, schema)
        orders.server.run(f"alter type {kind} add value '{schema[9:14]}' before 'old'")
        orders.run("update T set price = price + 1")
        assert len(after(orders, position, schema)) == 2
        orders.server.run(f"alter type {kind} rename value 'new' to 'fresh'")
        orders.run("update T set price = price + 1")
        with pytest.raises(SourceChangedError, match="was altered"):
            after(orders, position, schema)
        orders.server.run(f"alter type {kind} rename value 'fresh' to 'new'")
        orders.drop_slot()


def test_the_right_to_read_the_table_is_enough(parted: ChangedTable) -> None:
    reader = f"reader_{parted.name}"
    parted.run(f"create role {reader} login replication password 'x'", f"grant select on T to {reader}")
    try:
        position = read_all(parted)
        parted.run(f"truncate {parted.name}_a", "insert into T values (11, 'Graz')")
        with pytest.raises(SourceChangedError, match="_a was truncated"):
            after(parted, position, user=reader, password="x")
    finally:
        parted.run(f"revoke all on T from {reader}", f"drop role {reader}")
