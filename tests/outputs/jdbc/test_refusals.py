"""Errors for batches that the database refuses or cannot take now. The batch is kept for the next start."""

import datetime
from pathlib import Path
from threading import Thread
from typing import Any

import pyarrow as pa
import pytest

from tests.outputs.jdbc.outlets import outlet
from tests.support.postgres import PostgresServer
from trident import TridentTopology
from trident.errors import BatchFailedError, OutputConflictError, OutputRefusedError, OutputUnavailableError
from trident.outputs.jdbc import outlet as jdbc_outlet
from trident.outputs.jdbc.writing import BatchText
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

TABLES = [
    ("v bigint", "v long, w long", (), "has no column 'w'; its columns are v. Add the column, or leave the field out"),
    ("itemid bigint", "itemId long", (), r": rename the field, rename\('itemId', 'itemid'\)"),
    ("v integer", "v long", (), "field 'v' is bigint, and column 'v' of the table .* is integer: expected bigint or n"),
    ("v numeric(10,2)", "v decimal(10,4)", (), r"is numeric\(10,2\), which would round its values or refuse them"),
    ("v numeric(12,4)", "v decimal(12,2)", (), "which would round its values or refuse them"),
    ("v numeric(18)", "v long", (), "which would round its values or refuse them"),
    ("v timestamptz(3)", "v timestamp", (), r"is timestamp\(3\) with time zone, which would round its values"),
    ("v timestamptz", "v timestamp_ntz", (), "field 'v' is timestamp_ntz, .* expected timestamp without time zone"),
    ("v text", "v binary", (), "field 'v' is binary, .* is text: expected bytea"),
    ("v double precision", "v long", (), "field 'v' is bigint, .* expected bigint or numeric"),
    ("v bigint, w bigint not null", "v long", (), "has the column 'w', which is NOT NULL without a default"),
    ("v bigint generated always as identity", "v long", (), "the server computes column 'v'"),
    ("v bigint, w bigint generated always as (v + 1) stored", "v long, w long", (), "the server computes column 'w'"),
    (
        "v bigint",
        "v long",
        ("v",),
        r"no primary key or unique index of the columns \(v\) alone. Without it a key",
    ),
    ("v bigint, w bigint, unique (v, w)", "v long, w long", ("v",), r"of the columns \(v\) alone; it has \(v, w\)"),
    ("v bigint unique deferrable", "v long", ("v",), "no primary key or unique index"),
]


@pytest.mark.parametrize(("columns", "fields", "key", "says"), TABLES)
def test_a_table_that_does_not_fit(
    postgres: PostgresServer, table: str, columns: str, fields: str, key: tuple[str, ...], says: str
) -> None:
    postgres.run(f"create table {table} ({columns})")
    with pytest.raises(OutputRefusedError, match=says) as raised:
        outlet(postgres.url, table, fields, key=key)
    assert str(raised.value).startswith("s/1:writeJdbc: the database at postgresql://postgres:***@")


@pytest.mark.parametrize(
    ("create", "says"),
    [
        ("create unlogged table {} (v bigint)", "is unlogged: a crash of the server would empty it"),
        (
            "create table {} (v bigint primary key) partition by range (v); create table {}_a partition of {} for "
            "values from (0) to (9) partition by range (v); create unlogged table {}_b partition of {}_a default",
            "the partition .*_b is unlogged: a crash of the server would empty it",
        ),
        (
            "create table {} (v bigint) partition by range (v); create extension if not exists file_fdw; create server "
            "if not exists files foreign data wrapper file_fdw; create foreign table {}_f partition of {} default "
            "server files options (filename '/dev/null')",
            "the partition .*_f is a foreign table: its rows are on another server",
        ),
        ("create view {} as select 1::bigint as v", "is a view or a foreign table: expected a table of this database"),
        ("select", "there is no table"),
        ("create table {} (v bigint); create unique index on {} (v) where v > 1", "no primary key or unique index"),
        ("create table {} (v bigint); create unique index on {} ((v + 1))", "no primary key or unique index"),
    ],
)
def test_a_relation_that_cannot_be_written_exactly(
    postgres: PostgresServer, table: str, create: str, says: str
) -> None:
    postgres.run(*create.replace("{}", table).split(";"))
    with pytest.raises(OutputRefusedError, match=says):
        outlet(postgres.url, table, "v long", key=("v",))


def test_columns_that_fit(postgres: PostgresServer, table: str) -> None:
    """Defaults, identities, domains, an index with further columns, names that need quotes, another schema."""
    postgres.run(
        f"create schema s_{table}",
        f"create domain s_{table}.money as numeric(12,2)",
        f'create table s_{table}."T" (n bigint generated always as identity, "a.B" text, p s_{table}.money, '
        f"d bigint not null default 7)",
        f'create unique index on s_{table}."T" ("a.B") include (p)',
    )
    fields = pa.schema([("a.B", pa.string()), ("p", pa.decimal128(12, 2))])
    made = outlet(postgres.url, f"s_{table}.T", "`a.B` string, p decimal(12,2)", key=("a.B",))
    made.take(fields.empty_table(), 1)
    made.take(pa.table({"a.B": ["x", "x"], "p": pa.array([1, 2], pa.decimal128(12, 2))}), 2)
    made.close()
    with postgres.connect() as connection:
        found = connection.execute(f'select "a.B", p::int, d from s_{table}."T"'.encode()).fetchall()
        assert found == [("x", 2, 7)]
        assert connection.execute(f"select txid from s_{table}._trident_outputs".encode()).fetchall() == [(2,)]


def test_a_row_that_a_constraint_refuses_stops_the_run_and_the_batch_is_kept(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    postgres.run(f"create table {table} (v bigint check (v < 3), w bigint unique)")
    made = TridentTopology()
    made.newStream("s", FixedBatchSpout("v long, w long", [[(1, 1)], [(2, 2), (3, 3)], [(0, 4)]])).writeJdbc(
        postgres.url, table
    )
    with (
        pytest.raises(OutputRefusedError) as raised,
        start_local(made, name=table, checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)
    told = str(raised.value)
    for part in (
        "refuses batch 2", "violates check constraint", "Failing row contains (3, 3)", "The batch stays frozen",
        f"change the table {table}",
    ):  # fmt: skip
        assert part in told
    postgres.run(f"alter table {table} drop constraint {table}_v_check")
    with start_local(made, name=table, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    with postgres.connect() as connection:
        assert connection.execute(f"select v from {table} order by w".encode()).fetchall() == [(1,), (2,), (3,), (0,)]


def test_a_value_that_a_column_refuses_is_named(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (v varchar(2))")
    made = outlet(postgres.url, table, "v string")
    with pytest.raises(OutputRefusedError, match=r"value too long.*COPY .*, line 2, column v: \"abc\""):
        made.take(pa.table({"v": ["ab", "abc"]}), 1)
    made.take(pa.table({"v": ["ab"]}), 1)
    made.close()


@pytest.mark.parametrize("rows", [1, 5_000])
def test_a_text_that_no_column_takes_fails_its_batch_before_it_is_frozen(
    postgres: PostgresServer, table: str, tmp_path: Path, rows: int
) -> None:
    postgres.run(f"create table {table} (v text)")

    def topology(clean: bool) -> TridentTopology:
        made = TridentTopology()
        texts = made.newStream("s", FixedBatchSpout("v string", [[("a",)], [("b\0",)] * rows]))
        texts = texts.each("v", lambda v: v.replace("\0", "") if clean else v, "v string", replace=True)
        texts.writeJdbc(postgres.url, table)
        return made

    with (
        pytest.raises(BatchFailedError, match=r"writeJdbc.*field 'v' has a text with the character U\+0000"),
        start_local(topology(False), name=table, checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)
    with start_local(topology(True), name=table, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    with postgres.connect() as connection:
        counts = connection.execute(f"select v, count(*) from {table} group by v order by v".encode()).fetchall()
    assert counts == [("a", 1), ("b", rows)]


def test_a_table_of_records_that_a_crash_would_empty_is_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create schema s_{table}", f"create table s_{table}.t (v bigint)")
    outlet(postgres.url, f"s_{table}.t", "v long").close()
    postgres.run(f"alter table s_{table}._trident_outputs set unlogged")
    with pytest.raises(OutputRefusedError, match='"_trident_outputs" is unlogged: a crash of the server would empty'):
        outlet(postgres.url, f"s_{table}.t", "v long")


def test_the_settings_of_a_user_change_nothing(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (v date)", f"create role r_{table} superuser login password 'x'",
        f"alter role r_{table} set quote_all_identifiers = on",
        f"alter role r_{table} set standard_conforming_strings = off",
    )  # fmt: skip
    made = outlet(f"postgresql://r_{table}:x@{postgres.place}", table, "v date")
    made.take(pa.table({"v": [datetime.date(2024, 2, 1)]}), 1)
    made.close()


def test_a_user_who_only_reads(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (v bigint)", f"create role r_{table} superuser login password 'x'",
        f"alter role r_{table} set default_transaction_read_only = on",
    )  # fmt: skip
    url = f"postgresql://r_{table}:x@{postgres.place}"
    with pytest.raises(OutputUnavailableError, match=r"is read-only\. For a standby, .* default_transaction_read_only"):
        outlet(url, table, "v long")


def test_a_user_who_may_not_create_the_table_of_records(postgres: PostgresServer, table: str) -> None:
    role = f"r_{table}"
    postgres.run(
        f"create schema {role}", f"create table {role}.t (v bigint)", f"create role {role} login password 'x'",
        f"grant usage on schema {role} to {role}", f"grant insert, select on {role}.t to {role}",
    )  # fmt: skip
    url = f"postgresql://{role}:x@{postgres.place}"
    with pytest.raises(OutputRefusedError, match=r"permission denied.*CREATE on its schema for the table of records"):
        outlet(url, f"{role}.t", "v long")
    with pytest.raises(OutputRefusedError, match="password authentication failed"):
        outlet(url.replace(":x@", ":y@"), f"{role}.t", "v long")


def test_a_server_that_is_away_is_waited_for(mortal: PostgresServer, table: str) -> None:
    mortal.run(f"create table {table} (v bigint)")
    made = outlet(mortal.url, table, "v long")
    mortal.kill()
    for _ in range(2):
        with pytest.raises(OutputUnavailableError, match="batch 1 is written again, unless it is there"):
            made.take(pa.table({"v": [1]}), 1)
    mortal.start()
    made.take(pa.table({"v": [1]}), 1)
    made.close()
    with mortal.connect() as connection:
        assert connection.execute(f"select v from {table}".encode()).fetchall() == [(1,)]


@pytest.mark.parametrize("lost", ["before", "after"])
def test_a_commit_whose_answer_was_lost(
    postgres: PostgresServer, table: str, lost: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection ends at COMMIT, before the server got it, or after it committed."""
    postgres.run(f"create table {table} (v bigint)")
    made = outlet(postgres.url, table, "v long")
    connection, execute = made._connection, made._connection.execute

    def losing(query: object, *more: object) -> object:
        if query != "commit":
            return execute(query, *more)
        if lost == "after":
            execute(query)
        raise made._client.OperationalError("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "execute", losing)
    with pytest.raises(OutputUnavailableError):
        made.take(pa.table({"v": [1]}), 1)
    made.take(pa.table({"v": [1]}), 1)
    made.take(pa.table({"v": [2]}), 2)
    made.close()
    with postgres.connect() as checked:
        assert checked.execute(f"select v from {table} order by v".encode()).fetchall() == [(1,), (2,)]


def test_a_transaction_that_stays_open_is_waited_for(
    postgres: PostgresServer, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock on the record is held by a former transaction: a batch is not written beside it."""
    monkeypatch.setattr(jdbc_outlet, "_BEGIN", jdbc_outlet._BEGIN.replace("'10s'", "'100ms'"))
    postgres.run(f"create table {table} (v bigint)")
    made = outlet(postgres.url, table, "v long")
    lock = f"select 1 from _trident_outputs where output = '{table}/out' for update"
    with postgres.transaction(lock), pytest.raises(OutputUnavailableError, match="lock timeout"):
        made.take(pa.table({"v": [1]}), 1)
    made.take(pa.table({"v": [1]}), 1)
    made.close()


def test_a_transaction_that_commits_meanwhile_counts(postgres: PostgresServer, table: str) -> None:
    """The server still works on the COMMIT of a connection that the driver has lost."""
    postgres.run(f"create table {table} (v bigint)")
    made, batch = outlet(postgres.url, table, "v long"), pa.table({"v": [1]})
    digest = BatchText([batch], (), changes=False).read_through()
    former = (
        f"insert into {table} values (1)",
        f"update _trident_outputs set txid = 1, digest = '{digest}' where output = '{table}/out'",
    )
    with postgres.transaction(*former) as transaction:
        again = Thread(target=made.take, args=(batch, 1))
        again.start()
        with postgres.connect() as connection:
            while not connection.execute(b"select 1 from pg_locks where not granted").fetchall():
                assert again.is_alive()
        transaction.execute(b"commit")
        again.join()
    made.close()
    with postgres.connect() as connection:
        assert connection.execute(f"select v from {table}".encode()).fetchall() == [(1,)]


def test_a_record_of_an_earlier_driver_that_comes_back_is_told(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (v bigint)")
    outlet(postgres.url, table, "v long", epoch=1).close()
    made = outlet(postgres.url, table, "v long", epoch=2)
    postgres.run(f"update _trident_outputs set epoch = 1 where output = '{table}/out'")
    with pytest.raises(OutputConflictError, match="names the driver of epoch 1 again, after the driver of epoch 2"):
        made.take(pa.table({"v": [1]}), 1)
    made.close()


def test_another_table_under_the_same_name_is_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (v bigint)", f"create table {table}_b (v bigint)")
    outlet(postgres.url, table, "v long").close()
    postgres.run(f"alter table {table} rename to {table}_c", f"alter table {table}_b rename to {table}")
    outlet(postgres.url, table, "v long").close()  # a table under the same name is the same target
    postgres.run(f"update _trident_outputs set target = 'x' where output = '{table}/out'")
    with pytest.raises(OutputConflictError, match=r"belongs to an output into x, and this one writes into .* UPDATE"):
        outlet(postgres.url, table, "v long")
    postgres.run(f"update _trident_outputs set format = 99 where output = '{table}/out'")
    with pytest.raises(OutputConflictError, match="has the format 99"):
        outlet(postgres.url, table, "v long")


def test_a_partition_that_becomes_unlogged_under_a_driver_is_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (v bigint) partition by range (v)")
    postgres.run(f"create table {table}_a partition of {table} default")
    made = outlet(postgres.url, table, "v long")
    made.take(pa.table({"v": [1]}), 1)
    postgres.run(f"alter table {table}_a set unlogged")
    with pytest.raises(OutputUnavailableError, match="was altered since its columns were checked"):
        made.take(pa.table({"v": [2]}), 2)
    with pytest.raises(OutputRefusedError, match=f"the partition {table}_a is unlogged"):
        made.take(pa.table({"v": [2]}), 2)
    made.close()


@pytest.mark.parametrize("later", [False, True])
def test_a_table_that_was_recreated_is_told(
    postgres: PostgresServer, table: str, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its rows are gone, and the record is still there. Readers of the log then know where they end."""
    postgres.run(f"create table {table} (v bigint)")
    made = outlet(postgres.url, table, "v long")
    made.take(pa.table({"v": [1]}), 1)
    postgres.run(f"drop table {table}", f"create table {table} (v bigint)")
    if later:
        made.close()
        made = outlet(postgres.url, table, "v long", epoch=2, last_frozen=1)
    else:
        with pytest.raises(OutputUnavailableError, match="was altered since its columns were checked"):
            made.take(pa.table({"v": [2]}), 2)
    made.take(pa.table({"v": [2]}), 2)
    made.take(pa.table({"v": [3]}), 3)
    made.close()
    told = [record.getMessage() for record in caplog.records if "recreated after" in record.getMessage()]
    assert len(told) == 1 and f'the table "public"."{table}" was recreated after batch 1 was written there' in told[0]


def test_a_record_that_is_deleted_under_a_driver_is_told(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (v bigint)")
    made = outlet(postgres.url, table, "v long")
    postgres.run(f"delete from _trident_outputs where output = '{table}/out'")
    with pytest.raises(OutputConflictError, match="was deleted while the topology was running"):
        made.take(pa.table({"v": [1]}), 1)
    made.close()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("array<string>", ["b\0"]),
        ("struct<a: long, b: array<string>>", {"a": 1, "b": ["x", "b\0"]}),
        ("map<string, long>", {"b\0": 1}),
        ("map<long, array<string>>", {1: ["b\0"]}),
    ],
)
def test_a_text_within_a_value_that_no_column_takes_fails_its_batch_before_it_is_frozen(
    postgres: PostgresServer, table: str, tmp_path: Path, field: str, value: Any
) -> None:
    postgres.run(f"create table {table} (id bigint, v jsonb)")

    def topology(whole: bool) -> TridentTopology:
        made = TridentTopology()
        rows = made.newStream("s", FixedBatchSpout(f"id long, v {field}", [[(1, None)], [(2, value), (3, None)]]))
        (rows if whole else rows.filter("id", lambda id: id != 2)).writeJdbc(postgres.url, table)
        return made

    with (
        pytest.raises(BatchFailedError, match=r"writeJdbc.*field 'v' has a text with the character U\+0000"),
        start_local(topology(True), name=table, checkpointLocation=tmp_path, maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)
    with start_local(topology(False), name=table, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    with postgres.connect() as connection:
        assert connection.execute(f"select id, v from {table} order by id".encode()).fetchall() == [
            (1, None),
            (3, None),
        ]
