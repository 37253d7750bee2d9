"""Between the rows that a stream begins with and the changes after them there is no gap, and no change comes twice."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained
from tests.support.postgres import PostgresServer
from trident_spouts.postgres_changes import first_rows, planner


def around_the_rows(monkeypatch: pytest.MonkeyPatch, before: Callable[[], Any], after: Callable[[], Any]) -> None:
    """Call functions right before the rows are read, behind the creation of the slot, and right after that."""

    def read(*args: Any) -> Any:
        before()
        rows = first_rows.first_rows(*args)
        after()
        return rows

    monkeypatch.setattr(planner, "first_rows", read)


def test_a_change_is_in_the_rows_or_comes_after_them(orders: ChangedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transactions begin and end on either side of the moment, and one of them on both."""
    orders.run("insert into T values (1, 'Ann', 10), (2, 'Bob', 20), (3, 'Cy', 30)")
    name = orders.name
    with orders.server.connect() as early, orders.server.connect() as late:

        def before() -> None:
            orders.run("update T set price = 11 where id = 1", "insert into T values (4, 'shown', 1)")
            early.execute(f"begin; update {name} set price = 21 where id = 2".encode())
            late.execute(f"begin; insert into {name} values (5, 'late', 1)".encode())

        def after() -> None:
            early.execute("commit")
            orders.run("delete from T where id = 3")

        around_the_rows(monkeypatch, before, after)
        with closing(orders.spout().open()) as executor:
            plan = planned(executor)
            rows = changes(executor, plan)
            assert sorted(row[:3] for row in rows) == [(1, "Ann", 11), (2, "Bob", 20), (3, "Cy", 30), (4, "shown", 1)]
            read, plan = drained(executor, plan)
            assert read == [
                (2, "Bob", 20, "update_preimage"),
                (2, "Bob", 21, "update_postimage"),
                (3, "Cy", 30, "delete"),
            ]
            late.execute("commit")
            assert drained(executor, plan)[0] == [(5, "late", 1, "insert")]


def test_rows_wait_for_transactions_that_may_be_committed_before_the_slot_begins(orders: ChangedTable) -> None:
    """A transaction whose commit is in the log, and which is not visible yet, is neither in the slot nor in the rows.

    No test can hold a transaction in this state. So every transaction that runs when the slot exists is waited for.
    """
    orders.create_slot()
    insert = f"insert into {orders.name} values (1, 'Ann', 10)"
    with orders.server.transaction(insert) as connection, closing(orders.spout().open()) as executor:
        assert planned(executor) is None
        assert executor.waits_for() is not None  # type: ignore[attr-defined]
        connection.execute("commit")
        assert drained(executor)[0] == [(1, "Ann", 10, "insert")]


def test_a_slot_waits_for_open_transactions(orders: ChangedTable, monkeypatch: pytest.MonkeyPatch) -> None:
    from trident_spouts.postgres_changes import slot

    monkeypatch.setattr(slot, "_CREATION_SECS", 1)
    insert = f"insert into {orders.name} values (1, 'Ann', 10)"
    with orders.server.transaction(insert) as connection, closing(orders.spout().open()) as executor:
        assert planned(executor) is None
        assert "is created when the open transactions have ended" in str(executor.waits_for())  # type: ignore[attr-defined]
        connection.execute("commit")
        assert drained(executor)[0] == [(1, "Ann", 10, "insert")]


def test_rows_that_were_not_frozen_are_read_again(orders: ChangedTable) -> None:
    orders.run("insert into T values (1, 'Ann', 10)")
    with closing(orders.spout().open()) as executor:
        lost = planned(executor)
        orders.run("update T set price = 11")
    with closing(orders.spout().open()) as executor:
        plan = planned(executor)
        assert changes(executor, plan) == [(1, "Ann", 11, "insert")]
        assert plan["after"] is None
        assert plan["shown"] != lost["shown"]
        assert drained(executor, plan)[0] == []


def test_a_stream_of_changes_alone_begins_at_the_slot(orders: ChangedTable) -> None:
    orders.run("insert into T values (1, 'Ann', 10)")
    spout = orders.spout(startingFrom="slot")
    with closing(spout.open()) as executor:
        assert planned(executor) is None
        orders.run("update T set price = 11")
    with closing(spout.open()) as executor:
        assert [row[2] for row in drained(executor)[0]] == [10, 11]


def test_partitions_are_read_as_one_table(postgres: PostgresServer, orders: ChangedTable) -> None:
    name = f"{orders.name}_parts"
    postgres.run(
        f"create table {name} (id bigint, customer text, price bigint) partition by range (id)",
        f"create table {name}_a partition of {name} for values from (0) to (10)",
        f"create table {name}_b partition of {name} for values from (10) to (20)",
        f"alter table {name}_a replica identity full",
        f"alter table {name}_b replica identity full",
        f"alter table {name} replica identity full",
        f"create publication {name} for table {name} with (publish_via_partition_root = true)",
        f"insert into {name} values (1, 'Ann', 10)",
    )
    parts = ChangedTable(postgres, name)
    try:
        with closing(parts.spout().open()) as executor:
            _, position = drained(executor)
            parts.run("update T set id = 11", "insert into T values (2, 'Bob', 20)")
            read, _ = drained(executor, position)
        assert read == [(1, "Ann", 10, "delete"), (11, "Ann", 10, "insert"), (2, "Bob", 20, "insert")]
    finally:
        parts.drop_slot()
