"""The mode "snapshot": the table as of one moment, exact beside writers, and told where that cannot be any more."""

import pytest

from tests.spouts.jdbc.reads import column, drained, emitted, planned
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until
from trident.errors import DataLossError
from trident.spouts import JdbcSpout
from trident_spouts.executor import SpoutExecutor

CHANGES = (
    "insert into {} values (0, 'new'), (99, 'new')",
    "delete from {} where id = 9",
    "update {} set word = 'changed' where id in (2, 8)",
)


def filled(postgres: PostgresServer, table: str) -> str:
    postgres.run(
        f"create table {table} (id int primary key, word text)",
        f"insert into {table} select n, 'word ' || n from generate_series(1, 10) n",
    )
    return table


def opened(postgres: PostgresServer, table: str) -> SpoutExecutor:
    return JdbcSpout(postgres.url, table, orderBy="id", mode="snapshot", maxRowsPerBatch=4).open()


def test_it_is_the_table_of_one_moment_whatever_is_written_meanwhile(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    executor = opened(postgres, table)
    plan = planned(executor)
    postgres.run(*(change.format(table) for change in CHANGES))
    read = {}
    while plan is not None:
        rows = emitted(executor, plan).arrow()
        read |= dict(zip(column(rows), column(rows, 1), strict=True))
        told, plan = executor.read_so_far(plan), planned(executor, plan)
    assert read == {n: f"word {n}" for n in range(1, 11)}
    assert told is not None and (told.done, told.total, told.unit) == (10, 10, "rows")
    executor.close()


def test_it_goes_on_after_a_restart_if_nothing_has_changed(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    first = opened(postgres, table)
    plan = planned(first)
    first.close()
    second = opened(postgres, table)
    assert drained(second, plan)[0] == [5, 6, 7, 8, 9, 10]
    second.close()


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ("update {} set word = 'x' where id = 8", "some of them were updated or replaced"),
        ("delete from {} where id = 8", "1 of them are gone"),
        ("insert into {} values (99, 'x')", None),
        ("delete from {} where id = 8; insert into {} values (8, 'word 8')", "some of them were updated or replaced"),
    ],
)
def test_a_change_between_two_runs_is_told(postgres: PostgresServer, table: str, change: str, what: str | None) -> None:
    """Nobody keeps the snapshot open any more. Rows behind the last page were never part of it."""
    filled(postgres, table)
    first = opened(postgres, table)
    plan = planned(first)
    first.close()
    postgres.run(*change.format(table, table).split(";"))
    second = opened(postgres, table)
    if what is None:
        assert drained(second, plan)[0] == [5, 6, 7, 8, 9, 10]
    else:
        with pytest.raises(DataLossError, match=f"planned with 4 rows of id after 4 up to 8, and {what}"):
            drained(second, plan)
    second.close()


def test_the_snapshot_is_let_go_when_all_is_committed(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    executor = opened(postgres, table)
    _, position = drained(executor)
    held = f"select count(*) from pg_locks where relation = '{table}'::regclass"
    with postgres.connect() as connection:
        assert connection.execute(held.encode()).fetchone() == (1,)
        executor.success(3, position)
        wait_until(lambda: connection.execute(held.encode()).fetchone() == (0,))  # the server ends its process
    assert planned(executor, position) is None
    executor.close()


def test_a_server_that_was_restarted_has_no_snapshot_and_the_digest_decides(mortal: PostgresServer, table: str) -> None:
    filled(mortal, table)
    executor = opened(mortal, table)
    plan = planned(executor)
    mortal.restart()
    assert drained(executor, plan)[0] == [5, 6, 7, 8, 9, 10]
    mortal.run(f"update {table} set word = 'x' where id = 1")
    with pytest.raises(DataLossError, match="planned with 4 rows of id up to 4, and some of them were updated"):
        emitted(executor, plan).arrow()
    executor.close()
