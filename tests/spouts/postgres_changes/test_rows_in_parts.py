"""A table with a primary key is read in parts, while others change it: its changes lead to its rows, each once."""

import random
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained
from tests.support.postgres import PostgresServer
from trident.base.errors import SourceChangedError

Row = tuple[Any, ...]


def apply(rows: dict[Any, Row], read: list[Row], width: int) -> None:
    """Apply changes in their order. Each must fit: nothing is inserted twice, and what goes is what was there."""
    for *row, kind in read:
        key, now = tuple(row[:width]), tuple(row)
        if kind in ("insert", "update_postimage"):
            assert key not in rows, f"{now} comes over {rows[key]}"
            rows[key] = now
        else:
            assert rows.pop(key, None) == now, f"{kind} of {now}"


def test_each_change_between_two_parts_comes_once(orders: ChangedTable) -> None:
    """One transaction changes rows that were read, rows that were not, and moves rows from the ones to the others."""
    orders.run("insert into T select n * 10, 'x', n from generate_series(1, 6) n")
    with closing(orders.spout(maxRowsPerBatch=3).open()) as executor:
        first = planned(executor)
        assert [row[0] for row in changes(executor, first)] == [10, 20, 30]
        with orders.server.connect() as connection:
            connection.execute("begin")
            for statement in (
                "update T set price = 99 where id in (10, 40)",
                "update T set id = 45 where id = 20",
                "update T set id = 25 where id = 50",
                "delete from T where id in (30, 60)",
                "insert into T values (15, 'new', 1), (55, 'new', 2)",
            ):
                connection.execute(statement.replace(" T", f" {orders.name}").encode())
            connection.execute("commit")
        second = planned(executor, first)
        assert changes(executor, second) == [(40, "x", 99, "insert"), (45, "x", 2, "insert"), (55, "new", 2, "insert")]
        assert drained(executor, second)[0] == [
            (10, "x", 1, "update_preimage"),
            (10, "x", 99, "update_postimage"),
            (20, "x", 2, "delete"),
            (25, "x", 5, "insert"),
            (30, "x", 3, "delete"),
            (15, "new", 1, "insert"),
        ]


def test_tuples_that_have_only_the_key_of_a_row_that_goes_are_divided_too(orders: ChangedTable) -> None:
    orders.run("alter table T replica identity default", "insert into T select n, 'x', n from generate_series(1, 4) n")
    with closing(orders.spout(maxRowsPerBatch=2, images="key").open()) as executor:
        first = planned(executor)
        orders.run("update T set id = id + 10 where id in (1, 4)", "update T set price = 9 where id in (2, 3)")
        read, _ = drained(executor, first)
        assert sorted((row[0], row[3]) for row in read if row[0] != 1) == [
            (2, True), (3, True), (11, True), (14, True)
        ]  # fmt: skip
        assert [row[3] for row in read if row[0] == 1] == [None]


KEYS = {
    "id bigint": lambda n: str(n * 7919 % 100_003),
    "id text": lambda n: f"'{random.Random(n).choice(('a', 'B', 'é', 'Z', '_a', ' ', 'ab', 'A'))}{n % 37}'",
    'id text collate "C"': lambda n: f"'{'aBéZ_'[n % 5]}''{n}'",
    'id text collate "und-x-icu"': lambda n: f"'{'aBéZ_'[n % 5]}{n}'",
    "id uuid": lambda n: f"'{uuid.UUID(int=n * 2**90 % 2**128)}'",
    "id numeric(12, 3)": lambda n: f"{n - 40}.{n % 7}",
    "id timestamptz": lambda n: f"'2026-01-01 00:00:{n % 60:02}.{n}+02'",
    "id char(4)": lambda n: f"'{n}'",
    "id bytea": lambda n: f"'\\x{n * 977 % 65536:04x}'",
}
"""The type of a key, and the SQL of the n-th value. The order of the values differs from that of their numbers."""


@pytest.fixture
def keyed(request: pytest.FixtureRequest, postgres: PostgresServer) -> Iterator[ChangedTable]:
    table = ChangedTable(postgres, f"keyed_{uuid.uuid4().hex[:8]}")
    key = request.param
    table.create(f"{key} primary key, v bigint" if isinstance(key, str) else "v bigint, a text, b bigint, " + key[0])
    yield table
    table.drop_slot()


@pytest.mark.parametrize("keyed", KEYS, indirect=True, ids=lambda key: key.split(" ", 1)[1])
def test_parts_beside_random_writers_lead_to_the_rows_of_the_table(
    keyed: ChangedTable, request: pytest.FixtureRequest
) -> None:
    """Transactions are open around parts, keys are of each type, and the executor is another one now and then."""
    value = KEYS[request.node.callspec.params["keyed"]]
    chance = random.Random(5)
    keyed.run(*(f"insert into T values ({value(n)}, {n}) on conflict do nothing" for n in range(0, 80, 2)))
    rows: dict[Any, Row] = {}
    position: Any = None
    with ExitStack() as stack:
        writers = [stack.enter_context(keyed.server.connect()) for _ in range(2)]
        executor = keyed.spout(None, maxRowsPerBatch=4).open()
        for step in range(30):
            if chance.random() < 0.2:
                executor.close()
                executor = keyed.spout(None, maxRowsPerBatch=chance.choice((2, 4, 5))).open()
            plan = planned(executor, position)
            for writer in writers * 4:
                write(writer, keyed.name, value, chance)
            if plan is None:
                continue
            apply(rows, changes(executor, plan), 1)
            executor.success(1, plan)
            position = plan
            if step == 3:
                assert plan["after"] is None
        for writer in writers:
            writer.execute("commit")
        read, _ = drained(executor, position)
        apply(rows, read, 1)
        executor.close()
        with keyed.server.connect() as connection:
            expected = connection.execute(f"select id::text, v from {keyed.name}".encode()).fetchall()
    assert len(rows) == len(expected)
    assert {row[1] for row in rows.values()} == {row[1] for row in expected}


def write(writer: Any, table: str, value: Any, chance: random.Random) -> None:
    """Begin, continue or end a transaction of one writer. Writers have rows of their own, so that none waits."""
    mine = writer.info.backend_pid % 2
    if not writer.info.transaction_status:
        writer.execute("begin")
    elif chance.random() < 0.2:
        writer.execute(chance.choice(("commit", "commit", "rollback")))
        return
    n, other = (2 * chance.randrange(40) + mine for _ in range(2))
    statement = chance.choice(
        (
            f"insert into {table} values ({value(n)}, {n}) on conflict do nothing",
            f"update {table} set v = v + 1000 where v % 1000 = {n}",
            f"delete from {table} where v % 1000 = {n}",
            f"update {table} set id = {value(other)} where v % 1000 = {n} "
            f"and not exists (select from {table} where id = {value(other)})",
        )
    )
    writer.execute("savepoint before")
    try:
        writer.execute("set local lock_timeout = '50ms'")
        writer.execute(statement.encode())
    except Exception as error:
        if getattr(error, "sqlstate", None) not in ("23505", "55P03", "40P01"):
            raise
        writer.execute("rollback to savepoint before")


def test_a_key_of_several_columns(postgres: PostgresServer) -> None:
    table = ChangedTable(postgres, f"several_{uuid.uuid4().hex[:8]}")
    table.create("v bigint, b bigint, a text, primary key (a, b)")
    try:
        table.run("insert into T select n, n % 3, 'ab'::text || n / 3 from generate_series(1, 20) n")
        rows: dict[Any, Row] = {}
        with closing(table.spout("a string, b long, v long", maxRowsPerBatch=4).open()) as executor:
            position: Any = None
            for step in range(8):
                plan = planned(executor, position)
                if plan is None:
                    break
                apply(rows, changes(executor, plan), 2)
                position = plan
                table.run(
                    f"update T set v = v + 100 where b = {step % 3}",
                    f"update T set b = b + 10, a = a || 'x' where v % 100 = {step * 2}",
                    f"delete from T where v % 100 = {19 - step}",
                )
            apply(rows, drained(executor, position)[0], 2)
        with postgres.connect() as connection:
            query = f"select a, b, v from {table.name}"
            assert {row[:2]: row for row in connection.execute(query.encode()).fetchall()} == rows
    finally:
        table.drop_slot()


def test_a_key_of_a_composite_type(postgres: PostgresServer) -> None:
    table = ChangedTable(postgres, f"composite_{uuid.uuid4().hex[:8]}")
    postgres.run(f"create type {table.name}_pair as (a int, b text)")
    table.create(f"id {table.name}_pair primary key, v bigint")
    try:
        table.run(f"insert into T select row(n % 3, n)::{table.name}_pair, n from generate_series(1, 6) n")
        rows: dict[Any, Row] = {}
        with closing(table.spout("id string, v long", maxRowsPerBatch=2).open()) as executor:
            position: Any = None
            for _ in range(3):
                position = planned(executor, position)
                apply(rows, changes(executor, position), 1)
                table.run("update T set v = v + 10", "update T set id = row(9 - (id).a, (id).b) where v % 10 = 3")
            apply(rows, drained(executor, position)[0], 1)
        with postgres.connect() as connection:
            query = f"select id::text, v from {table.name}"
            assert sorted(rows.values()) == sorted(connection.execute(query.encode()).fetchall())
    finally:
        table.drop_slot()


def test_the_key_need_not_be_read(orders: ChangedTable) -> None:
    orders.run("insert into T select n, 'x', n from generate_series(1, 4) n")
    with closing(orders.spout("price long", maxRowsPerBatch=2).open()) as executor:
        first = planned(executor)
        orders.run("update T set price = price * 10")
        read = [*changes(executor, first), *drained(executor, first)[0]]
    assert [row for row in read if row[1] == "insert"] == [(1, "insert"), (2, "insert"), (30, "insert"), (40, "insert")]
    assert [row[0] for row in read if row[1] == "update_postimage"] == [10, 20]


def test_another_primary_key_in_between_is_told(orders: ChangedTable) -> None:
    orders.run("insert into T select n, 'x', n from generate_series(1, 4) n")
    with closing(orders.spout(maxRowsPerBatch=2).open()) as executor:
        first = planned(executor)
        orders.run(f"alter table T drop constraint {orders.name}_pkey", "alter table T add primary key (price)")
        with pytest.raises(SourceChangedError, match=r"primary key \(id\), and the primary key is now price. To"):
            planned(executor, first)


def test_another_identity_in_between_is_told(orders: ChangedTable) -> None:
    """Then a deletion does not bring the primary key, by which it would be known whether its row was read."""
    orders.run("alter table T replica identity default", "insert into T select n, 'x', n from generate_series(1, 4) n")
    with closing(orders.spout(maxRowsPerBatch=2, images="key").open()) as executor:
        first = planned(executor)
        orders.run(
            "alter table T alter price set not null",
            f"create unique index {orders.name}_price on T (price)",
            f"alter table T replica identity using index {orders.name}_price",
            "delete from T where id = 1",
            "alter table T replica identity default",
        )
        with pytest.raises(SourceChangedError, match="does not contain the primary key of a row"):
            drained(executor, first)


def test_a_table_that_does_not_change_needs_one_snapshot(orders: ChangedTable) -> None:
    """The position stays small: parts that show the same transactions are one."""
    orders.run("insert into T select n, 'x', n from generate_series(1, 13) n")
    with closing(orders.spout(maxRowsPerBatch=5).open()) as executor:
        read, position = [], None
        for _ in range(3):
            position = planned(executor, position)
            read.append([row[0] for row in changes(executor, position)])
    assert read == [[1, 2, 3, 4, 5], [6, 7, 8, 9, 10], [11, 12, 13]]
    assert len(position["shown"]) == 1
