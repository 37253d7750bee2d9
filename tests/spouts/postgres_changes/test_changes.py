"""The changes of a table come once each, with the rows before and after, behind the rows that it has."""

from contextlib import closing

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained


def test_rows_come_first_and_then_each_change(orders: ChangedTable) -> None:
    orders.run("insert into T values (1, 'Ann', 10), (2, 'Bob', null)")
    with closing(orders.spout().open()) as executor:
        read, position = drained(executor)
        assert read == [(1, "Ann", 10, "insert"), (2, "Bob", None, "insert")]
        orders.run(
            "insert into T values (3, '', -7)",
            "update T set customer = 'Bo\"b, ' || chr(10) || 'é' where id = 2",
            "update T set id = 4, price = price + 1 where id = 1",
            "delete from T where id = 3",
        )
        read, position = drained(executor, position)
        odd = 'Bo"b, \né'
        assert read == [
            (3, "", -7, "insert"),
            (2, "Bob", None, "update_preimage"),
            (2, odd, None, "update_postimage"),
            (1, "Ann", 10, "update_preimage"),
            (4, "Ann", 11, "update_postimage"),
            (3, "", -7, "delete"),
        ]
        assert planned(executor, position) is None


def test_a_batch_has_whole_transactions_up_to_its_limit(orders: ChangedTable) -> None:
    orders.create_slot()
    for first in (1, 10, 20, 30):
        orders.run(f"insert into T select n, 'x', n from generate_series({first}, {first} + 2) n")
    orders.run("insert into T select n, 'x', n from generate_series(100, 120) n")
    with closing(orders.spout(startingFrom="slot", maxRowsPerBatch=7).open()) as executor:
        sizes, position = [], None
        while (plan := planned(executor, position)) is not None:
            sizes.append(len(changes(executor, plan)))
            position = plan
        assert sizes == [6, 6, 21]


def test_a_former_batch_is_planned_and_emitted_again(orders: ChangedTable) -> None:
    orders.create_slot()
    for n in range(6):
        orders.run(f"insert into T values ({n}, 'x', {n})")
    spout = orders.spout(startingFrom="slot", maxRowsPerBatch=2)
    with closing(spout.open()) as executor, closing(spout.open()) as other:
        first = planned(executor)
        second = planned(executor, first)
        third = planned(executor, second)
        assert planned(executor) == first
        assert planned(executor, first) == second
        executor.success(1, first)
        assert planned(other, second) == third
        assert changes(other, second) == changes(executor, second) == [(2, "x", 2, "insert"), (3, "x", 3, "insert")]
        assert planned(executor, second) == third


def test_a_restart_leaves_out_what_the_slot_repeats(orders: ChangedTable) -> None:
    orders.create_slot()
    spout = orders.spout(startingFrom="slot", maxRowsPerBatch=2)
    position = None
    for n in range(4):
        orders.run(f"insert into T values ({n}, 'x', {n})")
        with closing(spout.open()) as executor:
            position = planned(executor, position)
            assert changes(executor, position) == [(n, "x", n, "insert")]
    with closing(spout.open()) as executor:
        assert planned(executor, position) is None
