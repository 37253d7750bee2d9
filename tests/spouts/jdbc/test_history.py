"""A position belongs to one table and one history of a server. Another one stops the stream; cleaning up does not."""

import logging
from typing import Any

import pytest

from tests.spouts.jdbc.reads import drained, planned
from tests.spouts.jdbc.tables import GIVEN, SERIAL, added, filled, opened
from tests.support.postgres import PostgresServer
from trident.errors import DataLossError, TopologyError
from trident.spouts import JdbcSpout

CLEANED = {
    "vacuum full": ["vacuum full {}"],
    "cluster": ["cluster {} using {}_pkey"],
    "deleted": ["delete from {}"],
    "the last one deleted": ["delete from {} where id = 5"],
    "updated": ["update {} set done = true"],
    "other words": ["update {} set word = 'other'"],
    "updated, then vacuum full": ["update {} set done = true where id > 2", "vacuum full {}"],
    "all deleted, then vacuum full": ["delete from {}", "vacuum full {}"],
    "truncated": ["truncate {}"],
    "deleted, then vacuum full": ["delete from {} where id > 2", "vacuum full {}"],
    "another type": ["alter table {} alter column word type varchar(20) using left(word, 20)"],
    "a wider key": ["alter table {} alter column id type numeric(20,0)"],
    "another column": ["alter table {} add column more int default 3"],
    "a volatile column": ["alter table {} add column more float default random()"],
    "a sequence of another store": ["alter sequence {}_id_seq minvalue 0"],
    "rolled back": ["begin; truncate {} restart identity; rollback"],
}


@pytest.mark.parametrize("restarted", [False, True], ids=["", "server restarted"])
@pytest.mark.parametrize("change", CLEANED)
def test_rows_that_were_read_may_be_cleaned_up(
    mortal: PostgresServer, table: str, change: str, restarted: bool
) -> None:
    filled(mortal, table)
    executor = opened(mortal, table)
    assert len(drained(executor)[0]) == 5
    position = drained(executor)[1]
    mortal.run(*(statement.format(table, table) for statement in CLEANED[change]))
    if restarted:
        mortal.restart()
    assert planned(executor, position) is None
    executor.close()
    mortal.run(*[f"insert into {table} (word) values ('new')"] * 2)
    again = opened(mortal, table)
    assert drained(again, position)[0] == ["new", "new"]
    again.close()


@pytest.mark.parametrize("then", ["restart", "vacuum full"])
@pytest.mark.parametrize("by", ["table", "view"])
@pytest.mark.parametrize(
    "change",
    [
        "alter type {0}_mood rename value 'word' to 'verb'",
        "alter table {0} drop column more; alter table {0} add column more int default 7",
    ],
    ids=["a label renamed", "a column anew"],
)
def test_rows_may_be_written_in_another_way_without_a_new_version(
    mortal: PostgresServer, table: str, change: str, by: str, then: str
) -> None:
    view = f"create view {table}_v as select id, moods from {table}"
    mortal.run(
        f"create type {table}_mood as enum ('word')",
        f"create table {table} (id bigserial, moods {table}_mood[], more int)",
        f"insert into {table} (moods) select '{{word}}' from generate_series(1, 3)",
        *[view] * (by == "view"),
    )

    def opened() -> Any:
        schema = "moods string" if by == "view" else "moods string, more int"
        return JdbcSpout(mortal.url, f"{table}_v" if by == "view" else table, schema, orderBy="id").open()

    executor = opened()
    position = drained(executor)[1]
    executor.close()
    mortal.run(change.format(table), *[f"vacuum full {table}"] * (then != "restart"))
    if then == "restart":
        mortal.restart()
    again = opened()
    assert planned(again, position) is None
    again.close()


REFILLED = {
    "restart identity": (SERIAL, ["truncate {} restart identity"], "its sequence was restarted"),
    "the same words": (SERIAL, ["truncate {} restart identity", "same"], "its sequence was restarted"),
    "explicit": (GIVEN, ["truncate {}"], "it has new files"),
    "explicit, the same words": (GIVEN, ["truncate {}", "same"], "it has new files"),
    "deleted and restarted": (
        SERIAL,
        ["delete from {}", "alter sequence {}_id_seq restart"],
        "its sequence was restarted",
    ),
}


@pytest.mark.parametrize("rows", [3, 5, 7])
@pytest.mark.parametrize("change", REFILLED)
def test_a_table_that_was_emptied_and_filled_again_is_another_one(
    postgres: PostgresServer, table: str, change: str, rows: int
) -> None:
    kind, statements, why = REFILLED[change]
    filled(postgres, table, kind)
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(*(statement.format(table) for statement in statements if statement != "same"))
    added(postgres, table, 1, rows, "word" if "same" in statements else "new")
    if rows >= 5:
        problem = (
            f"has none of the last 5 rows up to id=5 as they were read, and {why}: it was emptied and filled again"
        )
    else:
        problem = "ends at id=3 and was read up to 5"
    for reader in (executor, opened(postgres, table)):
        with pytest.raises(DataLossError, match=f"JdbcSpout: table {table} {problem}.*onDataLoss='warn'.*count twice"):
            planned(reader, position)
        reader.close()
    patient = opened(postgres, table, onDataLoss="warn")
    assert len(drained(patient, position)[0]) == max(0, rows - 5)
    patient.close()


def test_rows_of_chosen_values_in_a_truncated_table_are_another_table(postgres: PostgresServer, table: str) -> None:
    """The sequence counts on, and the new rows have none of the values that the proof knows."""
    filled(postgres, table, rows=30)
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(f"truncate {table}", f"insert into {table} (id, word) select n, 'new' from generate_series(1, 10) n")
    with pytest.raises(DataLossError, match="ends at id=10 and was read up to 30"):
        planned(executor, position)
    executor.close()


def test_a_truncated_table_whose_sequence_counts_on_has_lost_nothing(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table, rows=30)
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(f"delete from {table} where id > 10", f"vacuum full {table}")
    assert planned(executor, position) is None
    postgres.run(f"truncate {table}", f"insert into {table} (word) values ('new')")
    assert drained(executor, position)[0] == ["new"]
    executor.close()


def test_rows_that_are_there_and_not_final_are_waited_for(postgres: PostgresServer, table: str) -> None:
    """A run with availableNow does not end before them."""
    filled(postgres, table)
    executor = opened(postgres, table)
    position = drained(executor)[1]
    assert planned(executor, position) is None and executor.waits_for() is None, "nothing is there"
    with postgres.connect() as slow:
        slow.execute(b"begin")
        slow.execute(f"insert into {table} (word) values ('slow')".encode())
        assert planned(executor, position) is None and executor.waits_for() is None, "nothing is seen yet"
        postgres.run(f"insert into {table} (word) values ('fast')")
        assert planned(executor, position) is None
        assert f"table {table}: open transactions (1 seen) may still add rows" in executor.waits_for()
        slow.execute(b"commit")
    assert sorted(drained(executor, position)[0]) == ["fast", "slow"]
    assert planned(executor, drained(executor, position)[1]) is None and executor.waits_for() is None
    executor.close()


def test_a_sequence_that_falls_behind_what_was_read_is_told_at_once(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(f"insert into {table} values (1000, 'far')")
    read, far = drained(executor, position)
    assert read == ["far"]
    assert planned(executor, far) is None
    postgres.run(f"insert into {table} (word) values ('near')")
    problem = f"was read up to id=1000, and its sequence {table}_id_seq gives 7 next .6 before."
    with pytest.raises(DataLossError, match=problem):
        planned(executor, far)
    executor.close()


def test_a_copy_of_the_database_is_another_one(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create database {table}_a")
    with PostgresDatabase(postgres, f"{table}_a") as url:
        run(url, f"create table {table} (id bigserial, word text)", f"insert into {table} (word) values ('a')")
        executor = JdbcSpout(url, table, orderBy="id").open()
        position = drained(executor)[1]
        executor.close()
    postgres.run(f"create database {table}_b template {table}_a")
    with PostgresDatabase(postgres, f"{table}_b") as url:
        other = JdbcSpout(url, table, orderBy="id").open()
        with pytest.raises(DataLossError, match=f"table {table} is in another database .number [0-9]+ before"):
            planned(other, position)
        other.close()


class PostgresDatabase:
    """The url of another database of the server, which is dropped at the end."""

    def __init__(self, postgres: PostgresServer, name: str) -> None:
        self._url = postgres.url.removesuffix("postgres") + name

    def __enter__(self) -> str:
        return self._url

    def __exit__(self, *_: object) -> None:
        pass


def run(url: str, *statements: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_a_recovery_to_a_point_in_time_without_the_last_row_is_told(mortal: PostgresServer, table: str) -> None:
    """Transactions and the log of changes are behind those that were seen, so another timeline alone tells it."""
    filled(mortal, table)
    mortal.copy()
    added(mortal, table, 6, 7)
    executor = opened(mortal, table)
    position = drained(executor)[1]
    mortal.run(f"delete from {table} where id > 5")
    assert planned(executor, position) is None
    executor.close()
    mortal.restore(timeline=True)
    mortal.run(f"create table {table}_x as select repeat('x', 100) from generate_series(1, 9000)", *["checkpoint"] * 2)
    mortal.run(*[f"select txid_current(), {n}" for n in range(20)])
    again = opened(mortal, table)
    with pytest.raises(DataLossError, match="ends at id=5 and was read up to 7|is on timeline 0000000[2-9]"):
        planned(again, position)
    again.close()


def test_a_query_that_changed_is_refused_and_its_layout_may_change(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)

    def reader(text: str, **options: Any) -> Any:
        return JdbcSpout(postgres.url, query=text, schema="word string", orderBy="id", **options).open()

    query = f"select id, word from {table} where id <> 3"
    executor = reader(query)
    read, position = drained(executor)
    assert len(read) == 4
    executor.close()
    same = reader(f"select id, word\n  from {table}\n where id <> 3 ;")
    assert planned(same, position) is None
    same.close()
    other = reader(f"select id, word from {table}")
    with pytest.raises(TopologyError, match=r"the query is not the query .*query= was changed.*onDataLoss='warn'"):
        planned(other, position)
    other.close()
    table_now = opened(postgres, table)
    with pytest.raises(TopologyError, match="query= was changed"):
        planned(table_now, position)
    table_now.close()
    patient = reader(f"select id, word from {table}", onDataLoss="warn")
    assert planned(patient, position) is None
    patient.close()


def test_a_view_that_was_defined_anew_is_told(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    postgres.run(
        f"create view {table}_v as select id, word from {table} where id <> 3",
        f"create view {table}_w as select * from {table}_v",
    )
    executor = opened(postgres, f"{table}_w")
    position = drained(executor)[1]
    postgres.run(f"vacuum full {table}", f"update {table} set done = true")
    assert planned(executor, position) is None
    postgres.run(f"create or replace view {table}_v as select id, word from {table}")
    for reader in (executor, opened(postgres, f"{table}_w")):
        with pytest.raises(DataLossError, match=f"table {table}_w or a view below it was"):
            planned(reader, position)
        reader.close()


@pytest.mark.parametrize("rows", [[(3, "late")], [(30, "new")]], ids=["with rows below", "with rows behind"])
def test_a_partition_that_is_attached_with_rows_below_is_told(
    postgres: PostgresServer, table: str, rows: list[tuple[int, str]]
) -> None:
    postgres.run(
        f"create table {table} (id bigint not null, word text) partition by hash (word)",
        f"create table {table}_0 partition of {table} for values with (modulus 2, remainder 0)",
    )
    with postgres.connect() as connection:
        words = [f"w{n}" for n in range(20)]
        fits = f"select w from unnest(%s::text[]) w where satisfies_hash_partition('{table}'::regclass, 2, %s, w)"
        ours, other = ([w for (w,) in connection.execute(fits.encode(), (words, n)).fetchall()] for n in (0, 1))
    postgres.run(f"insert into {table} values (10, '{ours[0]}')", f"create table {table}_1 (like {table})")
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(*(f"insert into {table}_1 values ({id}, '{other[0]}')" for id, _ in rows))
    postgres.run(f"alter table {table} attach partition {table}_1 for values with (modulus 2, remainder 1)")
    again = opened(postgres, table)
    if rows[0][0] < 10:
        for reader in (executor, again):
            with pytest.raises(DataLossError, match=f"{table}_1, which became a partition of it since, has rows"):
                planned(reader, position)
    else:
        assert drained(executor, position)[0] == drained(again, position)[0] == [other[0]]
    executor.close()
    again.close()


def test_partitions_that_are_dropped_or_emptied_are_cleaned_up(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (id bigserial, word text) partition by range (id)",
        *(
            f"create table {table}_{n} partition of {table} for values from ({n}) to ({n + 10})"
            for n in range(0, 40, 10)
        ),
        f"insert into {table} (word) select 'word' from generate_series(1, 25)",
    )
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(f"drop table {table}_0", f"truncate {table}_10", f"alter table {table} detach partition {table}_30")
    assert planned(executor, position) is None
    postgres.run(f"create table {table}_new partition of {table} for values from (30) to (99)")
    postgres.run(f"insert into {table} (word) select 'new' from generate_series(1, 10)")
    assert drained(executor, position)[0] == ["new"] * 10
    executor.close()


def test_an_unlogged_table_that_a_crash_emptied_is_another_one(mortal: PostgresServer, table: str) -> None:
    mortal.run(f"create unlogged table {table} (id bigint primary key, word text)")
    added(mortal, table, 1, 5)
    executor = opened(mortal, table)
    position = drained(executor)[1]
    mortal.restart()
    added(mortal, table, 1, 7, "new")
    with pytest.raises(DataLossError, match="a crash .*empti.*, because it is unlogged"):
        planned(executor, position)
    executor.close()


def test_a_row_that_was_updated_before_a_restart_is_told_in_a_warning(
    mortal: PostgresServer, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    filled(mortal, table)
    executor = opened(mortal, table)
    position = drained(executor)[1]
    mortal.run(f"update {table} set word = 'other' where id = 5")
    mortal.restart()
    with caplog.at_level(logging.WARNING, "trident.spouts"):
        for _ in range(2):
            assert planned(executor, position) is None
    (told,) = caplog.messages
    assert f"table {table}: the server was restarted, and the row with id=5 has since been deleted or updated" in told
    executor.close()


@pytest.mark.parametrize("order", ["id", "at"])
def test_another_row_of_an_old_transaction_is_another_history(mortal: PostgresServer, table: str, order: str) -> None:
    """The restored server has gone on so far that no counter is behind: the row itself tells it."""
    mortal.run(
        f"create table {table} (id bigserial primary key, at timestamptz default now(), word text)", "checkpoint"
    )
    mortal.copy()
    mortal.run(*[f"insert into {table} (word) values ('old {n}')" for n in range(3)])
    executor = opened(mortal, table, orderBy=order)
    position = drained(executor)[1]
    executor.close()
    mortal.restore()
    mortal.run(
        *[f"insert into {table} (word) values ('new {n}')" for n in range(4)],
        f"create table {table}_x as select repeat('x', 100) from generate_series(1, 9000)",
        *[f"select txid_current(), {n}" for n in range(20)],
        "checkpoint",
    )
    again = opened(mortal, table, orderBy=order)
    if order == "id":
        with pytest.raises(DataLossError, match="has at id=.* a row of transaction .*: the server was restored"):
            planned(again, position)
    else:
        assert len(drained(again, position)[0]) == 4, "new rows have new times, so that none is left out"
    again.close()


@pytest.mark.parametrize("by", ["query", "view", "join"])
def test_another_row_of_the_same_transaction_is_another_history_of_a_query(
    mortal: PostgresServer, table: str, by: str
) -> None:
    """The restored server gives the same numbers of transactions out again, to other rows of the same ids."""
    mortal.run(
        f"create table {table} (id bigserial primary key, word text)",
        f"create table {table}_n as select 1 as n",
        f"create view {table}_v as select id as id, upper(word) as loud, word from {table}",
        "checkpoint",
    )
    mortal.copy()
    mortal.run(*[f"insert into {table} (word) values ('old {n}')" for n in range(3)])
    sql = f"select * from {table} where word <> ''"
    sql = f"select t.id, t.word || n.n as word, t.word as whole from {table} t, {table}_n n" if by == "join" else sql
    source = {"table": f"{table}_v"} if by == "view" else {"query": sql}

    def opened() -> Any:
        return JdbcSpout(mortal.url, schema="word string", orderBy="id", **source).open()

    executor = opened()
    position = drained(executor)[1]
    executor.close()
    if by == "join":  # another text of the same row is an update elsewhere
        mortal.run(f"update {table}_n set n = 2")
        mortal.restart()
        again = opened()
        assert drained(again, position)[0] == []
        again.close()
    mortal.restore()
    mortal.run(*[f"insert into {table} (word) values ('new {n}')" for n in range(7)])
    mortal.run(*[f"select txid_current(), {n}" for n in range(5)], "checkpoint")
    again = opened()
    with pytest.raises(DataLossError, match="has at id=.* a row of transaction .*: the server was restored"):
        planned(again, position)
    again.close()


def test_a_snapshot_goes_on_only_over_the_same_server(postgres: PostgresServer, table: str) -> None:
    filled(postgres, table)
    executor = opened(postgres, table, mode="snapshot", maxRowsPerBatch=2)
    plan = planned(executor)
    executor.close()
    again = opened(postgres, table, mode="snapshot", maxRowsPerBatch=2)
    assert len(drained(again, plan)[0]) == 3
    again.close()
    plan["proof"][0][0] = "7"
    other = opened(postgres, table, mode="snapshot", maxRowsPerBatch=2)
    with pytest.raises(DataLossError, match="is on another server .system identifier 7 before"):
        planned(other, plan)
    other.close()


def test_a_clock_that_was_set_back_is_told(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id timestamptz default now(), word text)")
    postgres.run(f"insert into {table} (word) values ('a')")
    executor = opened(postgres, table)
    position = drained(executor)[1]
    postgres.run(f"update {table} set id = '2200-01-01 00:00:00+00'")
    position["pages"][-1][0] = "2200-01-01 00:00:00+00"
    position["proof"][0][7] = 1e11
    with pytest.raises(DataLossError, match="the clock of the server now shows an earlier time"):
        planned(executor, position)
    executor.close()
