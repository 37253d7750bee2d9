"""Without the whole row before a change, tuples are rows and deletions of keys, and a table follows them."""

from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained
from trident import Sum, TridentTopology
from trident.errors import BatchFailedError, SourceChangedError
from trident.state import MemoryMapState
from trident.testing import start_local


@pytest.mark.parametrize("identity", ["default", "full"])
def test_tuples_are_rows_and_deletions_of_keys(orders: ChangedTable, identity: str) -> None:
    orders.run(f"alter table T replica identity {identity}", "insert into T values (1, 'Ann', 10)")
    with closing(orders.spout(images="key").open()) as executor:
        read, position = drained(executor)
        assert read == [(1, "Ann", 10, True)]
        orders.run("update T set price = 11", "update T set id = 2", "delete from T")
        read, _ = drained(executor, position)
    rows = [(row[0], row[3]) for row in read]
    moved = [(1, None), (2, True), (2, None)]
    assert rows == ([(1, True), *moved] if identity == "default" else [(1, None), (1, True), *moved])
    assert [row[1:3] for row in read if row[3]] == [("Ann", 11), ("Ann", 11)]


def test_a_table_follows_and_gives_the_values_to_aggregates(orders: ChangedTable, tmp_path: Path) -> None:
    orders.run("alter table T replica identity default", "insert into T values (1, 'Ann', 10), (2, 'Bob', 20)")
    topology = TridentTopology()
    table = topology.newStream("orders", orders.spout(images="key")).asUpserts("_exists").toTable("id", name="orders")
    by_customer = table.changes().groupBy("customer")
    by_customer.persistentAggregate(MemoryMapState.opaque(), "price", Sum(), "total", name="totals")
    with start_local(topology, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
        orders.run("update T set customer = 'Bob' where id = 1", "update T set id = 3 where id = 2", "delete from T "
                   "where id = 1", "insert into T values (1, 'Cy', 7)")  # fmt: skip
        running.processAllAvailable(timeout=60)
        assert {key: tuple(row) for key, row in running.state("orders").items()} == {3: ("Bob", 20), 1: ("Cy", 7)}
        assert dict(running.state("totals").items()) == {"Bob": 20, "Cy": 7}


@pytest.mark.parametrize("identity", ["default", "using index T_customer"])
def test_a_table_by_another_key_than_the_sources_stops(orders: ChangedTable, identity: str, tmp_path: Path) -> None:
    """The log has no other field of a row that goes, so the row would stay."""
    orders.run(
        "alter table T alter customer set not null",
        f"create unique index {orders.name}_customer on T (customer)",
        f"alter table T replica identity {identity.replace('T_', f'{orders.name}_')}",
        "insert into T values (1, 'Ann', 10), (2, 'Bob', 20)",
    )
    topology, key = TridentTopology(), "customer" if identity == "default" else "id"
    topology.newStream("orders", orders.spout(images="key")).asUpserts("_exists").toTable(key, name="orders")
    with suppress(BatchFailedError), start_local(topology, checkpointLocation=tmp_path, maxAttempts=1) as running:
        running.processAllAvailable(timeout=60)
        orders.run("delete from T where id = 1")
        with pytest.raises(BatchFailedError, match=f"key field '{key}' is null"):
            running.processAllAvailable(timeout=60)


def test_a_large_value_that_an_update_leaves_out_is_refused(orders: ChangedTable) -> None:
    orders.run("alter table T replica identity default", "alter table T alter customer set storage external",
               "insert into T values (1, repeat('x', 10000), 10)")  # fmt: skip
    with closing(orders.spout(images="key").open()) as executor:
        _, position = drained(executor)
        orders.run("update T set price = 11")
        with pytest.raises(SourceChangedError, match="leaves a large value unchanged"):
            planned(executor, position)
    with closing(orders.spout("id long, price long", images="key").open()) as executor:
        assert changes(executor, planned(executor, position)) == [(1, 11, True)]
