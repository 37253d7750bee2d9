"""What happens to a table while it is read: dropped, truncated, altered, rows deleted, updated or added late."""

import logging
from typing import Any

import pytest

from tests.spouts.jdbc.reads import column, drained, emitted, planned
from tests.support.postgres import PostgresServer
from trident.errors import DataLossError, SourceUnreadableError, TopologyError, TypeDeclarationError
from trident.spouts import JdbcSpout


def filled(postgres: PostgresServer, table: str, rows: int = 10) -> str:
    postgres.run(
        f"create table {table} (id int primary key, n int)",
        f"insert into {table} select n, n from generate_series(1, {rows}) n",
    )
    return table


def opened(postgres: PostgresServer, table: str, **options: Any) -> Any:
    return JdbcSpout(postgres.url, table, "id int, n int", orderBy="id", **options).open()


CHANGES = [
    ("delete from {} where id in (3, 4)", "2 of them are gone: they were deleted, or an update changed id"),
    ("update {} set id = 50 where id = 3", "1 of them are gone: they were deleted, or an update changed id"),
    ("update {} set n = 7 where id = 3", "some of them were updated or replaced"),
    ("delete from {0} where id = 3; insert into {0} values (3, 3)", "some of them were updated or replaced"),
    ("insert into {} values (0, 0)", r"1 more are there now: inserted or committed late.*isolationLag="),
    ("truncate {}", "10 of them are gone"),
]


@pytest.mark.parametrize(("change", "what"), CHANGES)
def test_a_planned_batch_that_has_changed_fails(postgres: PostgresServer, table: str, change: str, what: str) -> None:
    executor = opened(postgres, filled(postgres, table))
    plan = planned(executor)
    postgres.run(*change.format(table).split(";"))
    problem = f"JdbcSpout: table {table}: the batch was planned with 10 rows of id up to 10, and {what}"
    with pytest.raises(DataLossError, match=f"{problem}.*Nothing of the batch was applied: the next start plans it"):
        emitted(executor, plan, 1).arrow()
    executor.close()


def test_an_opaque_batch_that_has_changed_is_planned_anew(postgres: PostgresServer, table: str) -> None:
    executor = opened(postgres, filled(postgres, table), kind="opaque")
    plan = planned(executor)
    postgres.run(f"delete from {table} where id = 3")
    with pytest.raises(SourceUnreadableError, match="1 of them are gone.*; the batch is planned again"):
        emitted(executor, plan).arrow()
    assert drained(executor)[0] == [1, 2, 4, 5, 6, 7, 8, 9, 10]
    executor.close()


def test_a_query_has_no_versions_and_notices_numbers_alone(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    executor = JdbcSpout(postgres.url, query=f"select * from {table};", orderBy="id").open()
    plan = planned(executor)
    postgres.run(f"update {table} set n = 7 where id = 3")
    assert column(emitted(executor, plan).arrow(), 1).count(7) == 2
    postgres.run(f"delete from {table} where id = 3")
    with pytest.raises(DataLossError, match="JdbcSpout: the query: .*1 of them are gone"):
        emitted(executor, plan).arrow()
    executor.close()


@pytest.mark.parametrize(
    ("statements", "loss"),
    [
        (("drop table {}", "create table {} (id int primary key, n int)"), r"was dropped and recreated \(oid \d+"),
        (("truncate {}",), "is empty and was read up to 10: rows were deleted, or the table was truncated or restored"),
        (("delete from {} where id > 8",), "ends at id=8 and was read up to 10"),
    ],
    ids=["dropped", "truncated", "deleted"],
)
def test_a_table_that_lost_what_was_read_stops_the_stream(
    postgres: PostgresServer,
    table: str,
    statements: tuple[str, ...],
    loss: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    executor = opened(postgres, filled(postgres, table))
    _, position = drained(executor)
    postgres.run(*(statement.format(table) for statement in statements))
    with pytest.raises(
        DataLossError, match=f"JdbcSpout: table {table} {loss}.*Start with onDataLoss='warn' to continue"
    ):
        planned(executor, position)
    executor.close()
    patient = opened(postgres, table, onDataLoss="warn")
    with caplog.at_level(logging.WARNING, "trident.spouts"):
        for _ in range(2):
            assert planned(patient, position) is None
    assert ["Reading continues after the last row that was read" in message for message in caplog.messages].count(
        True
    ) == 1
    postgres.run(f"insert into {table} values (11, 11)")
    assert drained(patient, position)[0] == [11]
    patient.close()


def test_rows_that_were_read_may_be_deleted(postgres: PostgresServer, table: str) -> None:
    executor = opened(postgres, filled(postgres, table))
    _, position = drained(executor)
    postgres.run(f"delete from {table} where id < 10", f"insert into {table} values (11, 11)")
    assert drained(executor, position)[0] == [11]
    executor.close()


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("drop table {}", SourceUnreadableError, 'relation "{}" does not exist; create the table, or correct its name'),
        ("alter table {} rename column id to key", SourceUnreadableError, 'column "id" does not exist'),
        ("alter table {} drop column n", TypeDeclarationError, "table {} has no column 'n'; its columns are id"),
        (
            "alter table {} alter column n type text",
            TypeDeclarationError,
            "column 'n' has the type text, but its field is declared as int; expected string",
        ),
        (
            "alter table {} alter column n type numeric(9, 1)",
            TypeDeclarationError,
            r"column 'n' has the type numeric, but its field is declared as int; expected decimal\(9,1\) or string",
        ),
        ("alter table {} add column more text", None, ""),
        ("alter table {} alter column n type smallint", None, ""),
    ],
)
def test_a_table_that_was_altered_is_told_at_the_next_plan(
    postgres: PostgresServer, table: str, statement: str, error: type[Exception] | None, message: str
) -> None:
    executor = opened(postgres, filled(postgres, table), maxRowsPerBatch=4)
    plan = planned(executor)
    postgres.run(statement.format(table))
    if error is None:
        assert drained(executor, plan)[0] == [5, 6, 7, 8, 9, 10]
    else:
        with pytest.raises(error, match=message.format(table)):
            planned(executor, plan)
    executor.close()


def test_a_stream_is_not_read_in_another_way(postgres: PostgresServer, table: str) -> None:
    executor = opened(postgres, filled(postgres, table))
    plan = planned(executor)
    executor.close()
    for options in ({"orderBy": "n"}, {"mode": "snapshot"}):
        other = JdbcSpout(postgres.url, table, **{"orderBy": "id", **options}).open()
        with pytest.raises(
            TopologyError, match="was read with orderBy='id', mode='incremental' and can only continue with these."
        ):
            planned(other, plan)
        other.close()


def test_a_table_is_called_as_the_database_spells_it(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f'create schema "S {table}"',
        f'create table "S {table}"."Odd "".name" ("The Id" int primary key, "say ""n""" text)',
        f'insert into "S {table}"."Odd "".name" values (1, \'it\'\'s\')',
    )
    spout = JdbcSpout(postgres.url, f'S {table}."Odd "".name"', orderBy="The Id")
    assert spout.schema.names == ["The Id", 'say "n"']
    executor = spout.open()
    assert emitted(executor, planned(executor)).arrow().to_pylist() == [{"The Id": 1, 'say "n"': "it's"}]
    executor.close()
