"""What gives a column its values: exact if the database tells that they grow, otherwise refused with the way out."""

from typing import Any

import pytest

from tests.spouts.jdbc.reads import drained, planned
from tests.support.postgres import PASSWORD, PostgresServer
from trident.errors import TopologyError
from trident.spouts import JdbcSpout


def opened(postgres: PostgresServer, table: str, **options: Any) -> Any:
    return JdbcSpout(postgres.url, table, **{"orderBy": "id", **options}).open()


def local(default: str) -> str:
    return f"create table {{0}} (id timestamp not null{default})"


LOCAL = "id is a local time .timestamp without time zone., which goes back with the clocks in autumn"
ZONED = "create table {{0}} (id timestamptz not null default {})"

REFUSED = {
    "cached": (
        ["create sequence {0}_s cache 50", "create table {0} (id bigint default nextval('{0}_s'))"],
        r"id takes its numbers from a sequence with CACHE 50 \({0}_s\): a session may insert rows with smaller numbers",
    ),
    "cached-by-name": (
        ["create sequence {0}_s cache 50", "create table {0} (id bigint default nextval('{0}_s'::text))"],
        "id takes its numbers from a sequence with CACHE 50",
    ),
    "below-views": (
        [
            "create sequence {0}_s cache 50",
            "create table {0}_t (id bigint default nextval('{0}_s'))",
            "create view {0}_v as select id from {0}_t where id > 0",
            "create view {0} as select v.id from {0}_v v join {0}_t using (id)",
        ],
        "id takes its numbers from a sequence with CACHE 50",
    ),
    "in-a-partition": (
        [
            "create sequence {0}_s cache 50",
            "create table {0} (id bigserial) partition by range (id)",
            "create table {0}_a partition of {0} (id default nextval('{0}_s')) for values from (0) to (10)",
        ],
        "id takes its numbers from a sequence with CACHE 50",
    ),
    "in-an-heir": (
        ["create table {0} (id bigserial)", "create table {0}_a (id bigserial) inherits ({0})"],
        r"id takes its numbers from several sequences \({0}_id_seq, {0}_a_id_seq\), which grow independently",
    ),
    "materialized": (
        ["create table {0}_t (id bigserial)", "create materialized view {0} as select * from {0}_t"],
        "the rows come from {0}, a materialized view, which a REFRESH fills with rows committed earlier, in any order",
    ),
    "below-a-view": (
        ["create materialized view {0}_m as select 1 as id", "create view {0} as select * from {0}_m"],
        "the rows come from {0}_m, a materialized view",
    ),
    "computed": (["create view {0} as select n * 2 as id from generate_series(1, 3) n"], "id is computed by"),
    "united": (
        ["create table {0}_t (id bigserial)", "create view {0} as select id from {0}_t union all select id from {0}_t"],
        "id is computed by the query, a view or the table, so it may not grow.",
    ),
    "generated": (["create table {0} (n int, id int generated always as (-n) stored)"], "id is computed"),
    "function": (
        ["create table {0} (id bigint default (extract(epoch from now()) * 1000)::bigint)"],
        "id takes its values from .*EXTRACT.*, which may not grow",
    ),
    "product": (["create sequence {0}_s", "create table {0} (id int default -nextval('{0}_s'))"], "id takes its"),
    "local": ([local("")], LOCAL),
    "local-now": ([local(" default now()")], LOCAL),
    "local-berlin": ([local(" default timezone('Europe/Berlin', now())")], LOCAL),
    "day": (["create table {0} (id date default current_date)"], "id is a date: rows of the same day may be added "
        "after"),
    "hour": ([ZONED.format("date_trunc('hour', now())")], "id takes its values from date_trunc"),
    "utc-as-zoned": ([ZONED.format("timezone('utc', now())")], "id takes its values from timezone"),
    "rounded": ([ZONED.format("current_timestamp(0)")], r"id takes its values from CURRENT_TIMESTAMP\(0\)"),
    "computed-time": (["create view {0} as select date_trunc('hour', now()) as id"], "id is computed"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_the_database_cannot_tell_is_refused_without_a_lag(
    postgres: PostgresServer, table: str, case: str
) -> None:
    statements, problem = REFUSED[case]
    postgres.run(*(statement.format(table) for statement in statements))
    executor = opened(postgres, table)
    message = f"JdbcSpout: table {table}: {problem.format(table)}.*Otherwise set isolationLag="
    with pytest.raises(TopologyError, match=message):
        planned(executor)
    executor.close()
    told = opened(postgres, table, isolationLag=3600)
    assert planned(told) is None
    told.close()
    if case not in ("computed-time",):
        snapshot = opened(postgres, table, mode="snapshot")
        drained(snapshot)
        snapshot.close()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ("increment -1", "id takes its numbers from {0}_s, which counts down"),
        (
            "cycle",
            r"id takes its numbers from {0}_s, which restarts at its end \(CYCLE\). To prevent that: ALTER SEQUENCE "
            r"{0}_s NO",
        ),
    ],
)
def test_numbers_that_shrink_are_refused_whatever_the_user_says(
    postgres: PostgresServer, table: str, options: str, problem: str
) -> None:
    postgres.run(
        f"create sequence {table}_s {options}", f"create table {table} (id bigint default nextval('{table}_s'))"
    )
    for lag in (0, 3600):
        executor = opened(postgres, table, isolationLag=lag)
        with pytest.raises(TopologyError, match=f"{problem.format(table)}.*mode='snapshot'"):
            planned(executor)
        executor.close()


def test_a_foreign_table_and_one_that_replication_fills_are_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        "create extension if not exists postgres_fdw",
        f"create server {table}_x foreign data wrapper postgres_fdw options (host '127.0.0.1', port '{postgres.port}', "
        "dbname 'postgres')",
        f"create user mapping for postgres server {table}_x options (user 'postgres', password '{PASSWORD}')",
        f"create table {table} (id bigserial) partition by range (id)",
        f"create table {table}_there (id bigint)",
        f"create foreign table {table}_f partition of {table} for values from (0) to (9) server {table}_x "
        f"options (table_name '{table}_there')",
        f"create table {table}_r (id bigserial)",
        f"create subscription {table}_u connection 'host=127.0.0.1' publication p with (connect = false)",
        f"insert into pg_subscription_rel select oid, '{table}_r'::regclass, 'r', null from pg_subscription "
        f"where subname = '{table}_u'",
    )
    foreign = opened(postgres, table)
    with pytest.raises(TopologyError, match=f"{table}_f, a foreign table: the transactions of its server"):
        planned(foreign)
    foreign.close()
    subscribed = opened(postgres, f"{table}_r")
    with pytest.raises(TopologyError, match=f"the rows come from {table}_r, which replication fills"):
        planned(subscribed)
    subscribed.close()
    postgres.run(f"alter subscription {table}_u set (slot_name = none)", f"drop subscription {table}_u")


@pytest.mark.parametrize(
    "statements",
    [
        ["create table {0} (id serial, word text)"],
        ["create table {0} (id int generated by default as identity, word text)"],
        ["create sequence {0}_s", "create table {0} (id bigint default nextval('{0}_s'), word text)"],
        ["create table {0} (id timestamptz default now(), word text)"],
        ["create table {0} (id timestamptz default clock_timestamp(), word text)"],
        ["create table {0} (id timestamptz(3) default current_timestamp, word text)"],
        ["create table {0} (id timestamp default timezone('utc', now()), word text)"],
        ["create table {0} (id timestamp default (now() at time zone 'UTC'), word text)"],
        ["create table {0}_t (id serial, word text)", "create view {0} as select id, word from {0}_t"],
    ],
)
def test_what_the_database_tells_is_exact_and_told_by_no_warning(
    postgres: PostgresServer, table: str, statements: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Sessions of other time zones add rows, one of them late."""
    postgres.run(*(statement.format(table) for statement in statements))
    insert = f"insert into {table} (word) values "
    executor = JdbcSpout(postgres.url, table, "word string", orderBy="id").open()
    with postgres.transaction("set timezone = 'America/New_York'", f"{insert} ('b')") as late:
        postgres.run(f"{insert} ('a')")
        read, position = drained(executor)
        assert read == []
        late.execute("commit")
    for zone, word in (("Asia/Tokyo", "c"), ("America/New_York", "d"), ("UTC", "e")):
        postgres.run(f"set timezone = '{zone}'; {insert} ('{word}')")
        more: list[str] = []
        while not more or len(read) + len(more) < ord(word) - ord("a") + 1:
            rows, position = drained(executor, position)
            more += rows
        read += more
    assert sorted(read) == ["a", "b", "c", "d", "e"]
    assert not caplog.messages
    executor.close()


def test_rounded_times_leave_no_row_out(postgres: PostgresServer, table: str) -> None:
    """A time that was rounded up lies in the future, and one that was rounded down comes again for half a second."""
    postgres.run(f"create table {table} (id timestamptz(0) default now(), n serial)")
    executor = JdbcSpout(postgres.url, table, "n int", orderBy="id").open()
    read, position = list[int](), None
    for number in range(1, 30):
        postgres.run(f"insert into {table} default values")
        if number % 3 == 0:
            postgres.run("select pg_sleep(0.05)")
        rows, position = drained(executor, position)
        read += rows
    while len(read) < 29:
        rows, position = drained(executor, position)
        read += rows
    assert read == list(range(1, 30))
    executor.close()


@pytest.mark.parametrize("kind", ["bigint primary key", "numeric(20,0)"])
def test_values_that_programs_give_are_told_once(
    postgres: PostgresServer, table: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    postgres.run(f"create table {table} (id {kind})")
    executor = opened(postgres, table)
    for _ in range(2):
        assert planned(executor) is None
    (told,) = caplog.messages
    assert told.startswith(
        f"JdbcSpout: table {table}: id has no default and no identity, so programs choose its values"
    )
    executor.close()
    caplog.clear()
    knowing = opened(postgres, table, isolationLag=0.001)
    assert planned(knowing) is None
    assert not caplog.messages
    knowing.close()


def test_a_number_that_a_transaction_took_before_it_wrote_is_waited_for(postgres: PostgresServer, table: str) -> None:
    """As mappers of objects do: nextval first, the row later in the same transaction."""
    postgres.run(f"create sequence {table}_s", f"create table {table} (id bigint primary key)")
    take = f"insert into {table} values (nextval('{table}_s'))"
    executor = opened(postgres, table)
    with postgres.transaction(f"select nextval('{table}_s')") as late:
        postgres.run(take)
        assert planned(executor) is None
        late.execute(f"insert into {table} values (1)".encode())
        late.execute("commit")
    assert drained(executor)[0] == [1, 2]
    executor.close()


def test_a_user_who_may_read_the_view_alone_reads_it(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create schema {table}",
        f"create table {table}.rows (id bigserial primary key, word text)",
        f"create view {table}.words as select id, word from {table}.rows",
        f"create view {table}_v as select * from {table}.words",
        f"create role {table} login password 'x'",
        f"grant select on {table}_v to {table}",
        f"insert into {table}.rows (word) values ('a')",
    )
    executor = JdbcSpout(f"postgresql://{table}:x@{postgres.place}", f"{table}_v", orderBy="id").open()
    with pytest.raises(TopologyError, match="the user may not see the source of the values of id"):
        planned(executor)
    executor.close()
    postgres.run(f"grant usage on schema {table} to {table}")
    executor = JdbcSpout(f"postgresql://{table}:x@{postgres.place}", f"{table}_v", orderBy="id").open()
    assert drained(executor)[0] == [1]
    executor.close()


def test_the_end_is_that_of_the_first_plan_once_it_is_final(postgres: PostgresServer, table: str) -> None:
    """A number may be taken before its transaction has a number of its own, as the late row's is."""
    postgres.run(f"create table {table} (id bigserial primary key, at timestamptz default now())")
    insert = f"insert into {table} default values"
    for order in ("id", "at"):
        postgres.run(f"truncate {table} restart identity", insert)
        executor = opened(postgres, table, orderBy=order, startingFrom="latest")
        with postgres.transaction(f"select nextval('{table}_id_seq'), now()") as late:
            postgres.run(insert)
            late.execute(f"insert into {table} values (2)".encode())
            assert planned(executor) is None
            postgres.run(insert)
            late.execute("commit")
        first = planned(executor)
        assert first["pages"] == []
        assert planned(executor) == first, "a second plan of the first batch begins there, too"
        assert drained(executor, first)[0] == [4]
        executor.close()


def test_an_empty_table_has_an_end_beside_transactions_under_way(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id bigserial primary key)")
    executor = opened(postgres, table, startingFrom="latest")
    with postgres.transaction(f"insert into {table} default values") as late:
        first = planned(executor)
        assert first["pages"] == []
        late.execute("commit")
    assert drained(executor, first)[0] == [1]
    executor.close()


def test_the_end_behind_a_lag_is_known_when_it_is_over(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id bigserial)", f"insert into {table} default values")
    executor = opened(postgres, table, startingFrom="latest", isolationLag=3600)
    assert planned(executor) is None
    executor.close()


def test_a_time_to_come_does_not_hide_rows_behind_the_end(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id timestamptz default now(), n serial)")
    postgres.run(f"insert into {table} (id) values (now() + interval '1 hour')")
    executor = JdbcSpout(postgres.url, table, "n int", orderBy="id", startingFrom="latest").open()
    first = planned(executor)
    postgres.run(f"insert into {table} default values")
    assert drained(executor, first)[0] == [2]
    executor.close()
