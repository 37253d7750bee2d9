"""Rows that are committed late: none is left out, by whatever transactions, and equal values stay together."""

import logging
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.spouts.jdbc.reads import column, drained, emitted, planned
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until
from trident import Count, TridentTopology
from trident.errors import SourceUnreadableError, TopologyError
from trident.spouts import JdbcSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.jdbc.final_values import Finality, Moment, UnderWay
from trident_spouts.jdbc.order_column import OrderColumn
from trident_spouts.jdbc.relation import Source


def numbered(postgres: PostgresServer, table: str) -> str:
    postgres.run(f"create table {table} (id bigint generated always as identity primary key, word text)")
    return f"insert into {table} (word) values ('late')"


def opened(postgres: PostgresServer, table: str, **options: Any) -> Any:
    return JdbcSpout(postgres.url, table, **{"orderBy": "id", **options}).open()


def test_a_row_with_a_smaller_id_that_is_committed_later_is_waited_for(postgres: PostgresServer, table: str) -> None:
    insert = numbered(postgres, table)
    executor = opened(postgres, table)
    with postgres.transaction(insert) as late:
        postgres.run(insert, insert)
        assert planned(executor) is None, "2 and 3 are there, and 1 may come"
        late.execute("commit")
    assert drained(executor)[0] == [1, 2, 3]
    executor.close()


def test_what_was_seen_before_a_long_transaction_is_read_beside_it(postgres: PostgresServer, table: str) -> None:
    insert = numbered(postgres, table)
    postgres.run(insert, insert)
    executor = opened(postgres, table)
    with ExitStack() as stack:
        first = stack.enter_context(postgres.transaction(insert))
        postgres.run(insert)
        assert planned(executor) is None
        stack.enter_context(postgres.transaction(insert))  # begins after 4 was seen, and has not ended
        first.execute("commit")
        assert drained(executor)[0] == [1, 2, 3, 4]
    executor.close()


def test_a_transaction_that_was_rolled_back_leaves_a_gap(postgres: PostgresServer, table: str) -> None:
    insert = numbered(postgres, table)
    executor = opened(postgres, table)
    with postgres.transaction(insert):
        postgres.run(insert)
        assert planned(executor) is None
    assert drained(executor)[0] == [2]
    executor.close()


def test_a_prepared_transaction_is_waited_for(postgres: PostgresServer, table: str) -> None:
    """With two-phase commit a transaction gets another number in the list of locks when it is prepared."""
    insert = numbered(postgres, table)
    executor = opened(postgres, table)
    with postgres.transaction(insert) as first:
        postgres.run(insert)
        assert planned(executor) is None
        first.execute(f"prepare transaction '{table}'".encode())
        assert planned(executor) is None
        postgres.run(f"commit prepared '{table}'")
    assert drained(executor)[0] == [1, 2]
    executor.close()


def test_rows_below_a_view_and_in_partitions_are_waited_for(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (id int not null, word text) partition by range (id)",
        f"create table {table}_a partition of {table} for values from (0) to (10)",
        f"create table {table}_b partition of {table} for values from (10) to (20)",
        f"create view {table}_v as select id, word from {table} where word <> 'no'",
        f"insert into {table} values (1, 'no'), (2, 'yes'), (12, 'yes')",
    )
    executor = opened(postgres, f"{table}_v")
    with postgres.transaction(f"insert into {table}_b values (11, 'late')") as late:
        assert planned(executor) is None
        late.execute("commit")
    assert drained(executor)[0] == [2, 11, 12]
    executor.close()


def test_times_wait_for_every_transaction_that_began_before(postgres: PostgresServer, table: str) -> None:
    """A transaction takes its time when it begins, long before it touches the table."""
    postgres.run(f"create table {table} (n int, at timestamptz default now())", f"create index on {table} (at)")
    executor = opened(postgres, table, orderBy="at")
    with postgres.transaction("select 1") as late:
        postgres.run(f"insert into {table} values (2)")
        assert planned(executor) is None
        late.execute(f"insert into {table} values (1)".encode())
        late.execute("commit")
    assert drained(executor)[0] == [1, 2]
    executor.close()


def test_a_time_that_is_still_to_come_is_read_when_it_is_past(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (n int, at timestamptz not null default now())",
        f"insert into {table} values (1, now() - interval '1 day'), (2, now() + interval '1 day')",
    )
    executor = opened(postgres, table, orderBy="at")
    read, position = drained(executor)
    assert read == [1]
    postgres.run(f"insert into {table} values (3, now())", f"update {table} set at = now() where n = 2")
    assert drained(executor, position)[0] == [2, 3]
    executor.close()


def test_rows_of_one_time_come_in_one_batch(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (n int, at timestamptz not null default now())",
        f"insert into {table} select n, '2026-01-01'::timestamptz + (n / 10) * interval '1 us' "
        "from generate_series(0, 39) n",
    )
    executor = opened(postgres, table, orderBy="at", maxRowsPerBatch=15)
    sizes, position = [], None
    while (plan := planned(executor, position)) is not None:
        sizes.append(emitted(executor, plan).rows)
        position = plan
    assert sizes == [20, 20]
    executor.close()


def test_isolation_lag_keeps_rows_back_beside_what_the_database_tells(postgres: PostgresServer, table: str) -> None:
    """Numbers that a program gives: one that was taken earlier is inserted later."""
    postgres.run(f"create table {table} (id int primary key)", f"insert into {table} values (5)")
    executor = opened(postgres, table, isolationLag=0.3)
    assert planned(executor) is None
    postgres.run(f"insert into {table} values (4)")
    read: list[Any] = []
    wait_until(lambda: bool(read.extend(drained(executor)[0]) or read))
    assert read == [4, 5]
    executor.close()


def test_a_lag_is_waited_for_and_not_an_end(postgres: PostgresServer, table: str) -> None:
    """Each run begins the lag anew: a run that ended at once, such as a nightly one, would never read a row."""
    postgres.run(f"create table {table} (id int primary key)", f"insert into {table} values (5)")
    executor = opened(postgres, table, isolationLag=0.3)
    assert planned(executor) is None
    assert executor.waits_for() == f"table {table}: isolationLag=0.3 s has not passed for the last rows"
    wait_until(lambda: planned(executor) is not None)
    first = planned(executor)
    assert emitted(executor, first).rows == 1
    assert planned(executor, first) is None and executor.waits_for() is None
    executor.close()


def test_rows_that_come_while_a_lag_passes_do_not_make_its_wait_longer(postgres: PostgresServer, table: str) -> None:
    """A table that gets a row each second always has some that are not final; a run must end all the same."""
    postgres.run(f"create table {table} (id int primary key)", f"insert into {table} values (1)")
    executor = opened(postgres, table, isolationLag=1)
    assert planned(executor) is None and executor.waits_for() is not None
    time.sleep(0.8)
    postgres.run(f"insert into {table} values (2)")
    wait_until(lambda: planned(executor) is not None)
    first = planned(executor)
    if planned(executor, first) is None:  # unless the machine took a second for that
        assert executor.waits_for() is None, "the run may end here"
        assert planned(executor, first) is None and executor.waits_for() is not None, "and otherwise waits for row 2"
    executor.close()


@pytest.mark.parametrize("starting", ["earliest", "latest"])
def test_a_run_that_ends_with_what_is_there_reads_the_rows_that_a_lag_holds_back(
    postgres: PostgresServer, table: str, starting: str, tmp_path: Path
) -> None:
    postgres.run(f"create table {table} (id int primary key)", f"insert into {table} values (5)")
    spout = JdbcSpout(postgres.url, table, "id int", orderBy="id", isolationLag=0.5, startingFrom=starting)
    for last in (6, 7):
        topology = TridentTopology()
        rows = topology.newStream("rows", spout).groupBy("id")
        rows.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
        with start_local(topology, name="t", checkpointLocation=tmp_path, availableNow=True) as running:
            running.awaitTermination(60)
            counts = dict(running.state("counts").items())
        assert counts == dict.fromkeys(range(5 if starting == "earliest" else 6, last), 1)
        postgres.run(f"insert into {table} values ({last})")


@pytest.mark.parametrize("value", ["NaN", "Infinity"])
def test_a_number_after_which_nothing_comes_is_refused(postgres: PostgresServer, table: str, value: str) -> None:
    """Every later row would be before it, and never read."""
    postgres.run(f"create table {table} (id numeric primary key)", f"insert into {table} values (1), ('{value}')")
    executor = opened(postgres, table, schema="id decimal(9,0)")
    message = f"JdbcSpout: table {table}: column 'id' has the value {value}, which cannot be compared; exclude such"
    with pytest.raises(SourceUnreadableError, match=message):
        planned(executor)
    executor.close()


def test_a_lag_runs_on_the_slower_of_two_clocks(postgres: PostgresServer, table: str) -> None:
    """A clock that is set forward shortens no lag, and one that is set back begins the lag anew."""
    column = OrderColumn(Source(table, table, None), "id", "bigint")

    def waiting() -> Finality:
        finality = Finality(column, 10)
        assert finality.of("5", UnderWay({}), Moment(100, 1000)) is None
        return finality

    assert waiting().of("6", UnderWay({}), Moment(109, 9000)) is None
    assert waiting().of("6", UnderWay({}), Moment(900, 1009)) is None
    assert waiting().of("6", UnderWay({}), Moment(110, 1010)) == "5"
    back = waiting()
    assert back.of("6", UnderWay({}), Moment(111, 500)) is None
    assert back.of("6", UnderWay({}), Moment(121, 510)) == "6"


def test_a_stream_that_a_transaction_holds_up_is_told_once(
    postgres: PostgresServer, table: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert = numbered(postgres, table)
    executor = opened(postgres, table)
    with postgres.transaction(insert), caplog.at_level(logging.WARNING, "trident.spouts"):
        postgres.run(insert)
        for time in (0.0, 59.0, 61.0, 200.0):
            monkeypatch.setattr("trident_spouts.jdbc.planner.monotonic", lambda time=time: time)
            assert planned(executor) is None
    (told,) = caplog.messages
    assert told.startswith(f"JdbcSpout: table {table}: rows up to id=2 have waited 61 s for 1 transactions")
    executor.close()


def test_latest_begins_behind_what_is_there_also_over_a_restart(postgres: PostgresServer, table: str) -> None:
    insert = numbered(postgres, table)
    postgres.run(insert)
    executor = opened(postgres, table, startingFrom="latest")
    plan = planned(executor)
    assert column(emitted(executor, plan).arrow()) == []
    postgres.run(insert)
    executor.close()
    again = opened(postgres, table, startingFrom="latest")
    assert drained(again, plan)[0] == [2]
    again.close()


def test_a_budget_makes_batches_smaller(postgres: PostgresServer, table: str) -> None:
    insert = numbered(postgres, table)
    postgres.run(*[insert] * 5)
    executor = opened(postgres, table)
    plan = planned(executor, rows=2)
    assert column(emitted(executor, plan).arrow()) == [1, 2]
    told = executor.read_so_far(plan)
    assert (told.done, told.total, told.unit, told.lag) == (2, 5, "ids", 3)
    executor.close()


def test_rows_without_a_value_are_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id int, word text)", f"insert into {table} values (1, 'a'), (null, 'b')")
    executor = opened(postgres, table)
    message = f"JdbcSpout: table {table} has rows without a value of id, which would never be read"
    with pytest.raises(SourceUnreadableError, match=message):
        planned(executor)
    executor.close()


def test_a_sequence_that_sessions_keep_in_store_is_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (id int generated always as identity (cache 20), word text)")
    message = f"JdbcSpout: table {table}: id takes its numbers from a sequence with CACHE 20"
    with pytest.raises(TopologyError, match=message):
        planned(opened(postgres, table))
    assert planned(opened(postgres, table, isolationLag=5)) is None


@pytest.mark.parametrize(
    ("kind", "starting", "fits"),
    [
        ("timestamptz", datetime(2026, 1, 1), False),
        ("timestamptz", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("timestamp", datetime(2026, 1, 1, tzinfo=UTC), False),
        ("int", datetime(2026, 1, 1), False),
        ("int", 7, True),
        ("numeric(20,0)", 7, True),
        ("date", datetime(2026, 1, 1).date(), True),
    ],
)
def test_a_start_must_be_a_value_of_the_column(
    postgres: PostgresServer, table: str, kind: str, starting: Any, fits: bool
) -> None:
    postgres.run(f"create table {table} (at {kind} not null)")
    executor = opened(postgres, table, orderBy="at", startingFrom=starting, isolationLag=1)
    if fits:
        assert planned(executor) is None
    else:
        with pytest.raises(TopologyError, match=f"expected a value of type {kind.removesuffix('tz')}"):
            planned(executor)
    executor.close()


@pytest.mark.parametrize("kind", ["double precision", "text", "boolean"])
def test_a_column_without_an_order_to_rest_on_is_refused(postgres: PostgresServer, table: str, kind: str) -> None:
    postgres.run(f"create table {table} (id {kind})")
    message = f"JdbcSpout: table {table}: orderBy='id' has the type {kind}; expected an integer, numeric, date or time"
    with pytest.raises(TopologyError, match=message):
        planned(opened(postgres, table))
