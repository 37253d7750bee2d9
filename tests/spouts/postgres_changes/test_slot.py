"""The slot keeps what is not committed, and no more; a lost connection costs nothing."""

from contextlib import closing

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained
from tests.support.postgres import PostgresServer
from trident.errors import DataLossError
from trident_spouts.postgres_changes import planner, reader
from trident_spouts.postgres_changes.lsn import lsn_from
from trident_spouts.postgres_changes.pgoutput import Decoder


def confirmed(table: ChangedTable) -> int:
    with table.server.connect() as connection:
        query = f"select confirmed_flush_lsn::text from pg_replication_slots where slot_name = '{table.name}'"
        ((lsn,),) = connection.execute(query.encode()).fetchall()
        return lsn_from(lsn)


def test_the_slot_is_advanced_only_by_a_commit(orders: ChangedTable) -> None:
    orders.create_slot()
    for n in range(4):
        orders.run(f"insert into T values ({n}, 'x', {n})")
    with closing(orders.spout(startingFrom="slot", maxRowsPerBatch=2).open()) as executor:
        first = planned(executor)
        second = planned(executor, first)
        changes(executor, second)
        before = confirmed(orders)
        assert before <= lsn_from(first["after"])
        executor.success(1, first)
        assert confirmed(orders) == lsn_from(first["to"])
        executor.success(2, second)
        executor.success(1, first)  # reported again after a restart: the slot does not go back
        assert confirmed(orders) == lsn_from(second["to"])


def test_the_log_of_other_tables_is_not_kept(orders: ChangedTable) -> None:
    """Without changes of the table an empty batch moves the position, and with it the slot."""
    with closing(orders.spout().open()) as executor:
        _, position = drained(executor)
        orders.run("create table T_noise as select repeat('x', 1000) from generate_series(1, 20000)")
        assert planned(executor, position) is None
        orders.run("insert into T_noise values ('x')")
        plan = planned(executor, position)
        assert plan["rows"] == 0
        assert lsn_from(plan["to"]) - lsn_from(position["to"]) > planner._LONGEST_SILENCE
        assert changes(executor, plan) == []
        executor.success(2, plan)
        assert confirmed(orders) == lsn_from(plan["to"])
        assert planned(executor, plan) is None
        orders.run("insert into T values (1, 'Ann', 10)")
    with closing(orders.spout().open()) as executor:
        assert drained(executor, plan)[0] == [(1, "Ann", 10, "insert")]


def test_a_lost_connection_or_server_costs_nothing(orders: ChangedTable, mortal: PostgresServer) -> None:
    orders.create_slot()
    with closing(orders.spout(startingFrom="slot", maxRowsPerBatch=1).open()) as executor:
        for n in range(3):
            orders.run(f"insert into T values ({n}, 'x', {n})")
        first = planned(executor)
        mortal.restart()
        assert changes(executor, first) == [(0, "x", 0, "insert")]
        second = planned(executor, first)
        mortal.kill()
        executor.success(1, first)  # a warning: a later commit advances the slot
        mortal.start()
        third = planned(executor, second)
        assert changes(executor, third) == [(2, "x", 2, "insert")]
        executor.success(3, third)
        assert planned(executor, third) is None  # it shows that this is the same server, and advances the slot
        assert confirmed(orders) == lsn_from(third["to"])


def test_the_lag_is_the_log_that_is_not_read(orders: ChangedTable) -> None:
    with closing(orders.spout().open()) as executor:
        _, position = drained(executor)
        orders.run("insert into T values (1, 'Ann', 10)")
        planned(executor, position)
        progress = executor.read_so_far(position)  # type: ignore[attr-defined]
        assert progress is not None
        assert progress.unit == "bytes"
        assert 0 < progress.lag < 10_000


def test_another_program_that_takes_changes_during_a_reading_is_noticed(
    orders: ChangedTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read the slot from another program, between our look at the slot and our reading of it."""
    take = (
        f"select count(*) from pg_logical_slot_get_binary_changes('{orders.name}', null, null, 'proto_version', '1', "
        f"'publication_names', '{orders.name}')"
    )
    with closing(orders.spout().open()) as executor:
        _, position = drained(executor)
        orders.run("insert into T values (1, 'Ann', 10)")
        monkeypatch.setattr(reader, "Decoder", lambda *args: (orders.run(take), Decoder(*args))[1])
        with pytest.raises(DataLossError, match="another program has taken"):
            planned(executor, position)
