"""What was lost, or cannot be read, is an error that says what is on both sides and the way out."""

from contextlib import closing
from typing import Any

import pytest

from tests.spouts.jdbc.reads import planned
from tests.spouts.postgres_changes.changed_table import ChangedTable, changes, drained
from tests.support.postgres import LOGICAL, PostgresServer
from trident.errors import DataLossError, SourceChangedError, SourceUnreadableError, TopologyError, TypeDeclarationError


def read_some(orders: ChangedTable, **options: Any) -> Any:
    """Read the rows and a change, and return the position."""
    orders.run("insert into T values (1, 'Ann', 10)")
    with closing(orders.spout(**options).open()) as executor:
        _, position = drained(executor)
        orders.run("update T set price = 11")
        read, position = drained(executor, position)
        assert len(read) == 2
    return position


def problem(orders: ChangedTable, position: Any, error: type[Exception], **options: Any) -> str:
    """Return the message of the error that the next batch of a new run raises."""
    with closing(orders.spout(**options).open()) as executor:
        if position is not None:
            executor.success(1, position)  # as each run begins
        with pytest.raises(error) as raised:
            changes(executor, planned(executor, position))
    return str(raised.value)


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        (["select pg_drop_replication_slot('N')"], "there is no slot"),
        (
            ["select pg_drop_replication_slot('N')", "select pg_create_logical_replication_slot('N', 'pgoutput')"],
            "it was recreated, or another program has read from it",
        ),
        (
            ["select count(*) from pg_logical_slot_get_binary_changes('N', null, null, 'proto_version', '1', "
             "'publication_names', 'N')"],
            "it was recreated, or another program has read from it",
        ),
        (["drop table T", "create table T (id bigint primary key, customer text, price bigint)",
          "alter table T replica identity full", "alter publication N add table T"], "was dropped and recreated (oid "),
        (["alter publication N drop table T", "insert into T values (8, 'lost', 1)", "alter publication N add table T"],
         "was altered or recreated"),
        (["alter publication N set (publish = 'insert')", "alter publication N set (publish = 'insert, update, delete, "
          "truncate')"], "was altered or recreated"),
        (["drop publication N", "create publication N for table T"], "was altered or recreated"),
    ],
    ids=["dropped", "recreated", "read-by-another", "table-recreated", "unpublished", "not-all-kinds", "republished"],
)  # fmt: skip
def test_changes_that_were_lost_stop_the_stream(orders: ChangedTable, statements: list[str], message: str) -> None:
    position = read_some(orders)
    orders.run("insert into T values (7, 'Ann', 10)")
    orders.run(*(statement.replace("N", orders.name) for statement in statements))
    told = problem(orders, position, DataLossError)
    assert message in told
    assert "use a stream with another name and separate states" in told


def test_a_publication_that_takes_other_tables_is_the_same(orders: ChangedTable) -> None:
    position = read_some(orders)
    orders.run(
        "create table T_more (id int)",
        f"alter publication {orders.name} add table {orders.name}_more",
        "vacuum freeze pg_publication",
        "vacuum full pg_publication_rel",
        "insert into T values (2, 'Bob', 1)",
    )
    with closing(orders.spout().open()) as executor:
        assert drained(executor, position)[0] == [(2, "Bob", 1, "insert")]


def test_another_server_or_database_is_refused(orders: ChangedTable, postgres: PostgresServer) -> None:
    position = read_some(orders)
    other = [*position["place"]]
    for at, message in ((0, "is on another server"), (1, "is in another database")):
        changed = {**position, "place": [*other[:at], "7" if at == 0 else 7, *other[at + 1 :]]}
        assert message in problem(orders, changed, DataLossError)


def test_a_restored_server_is_noticed_even_beyond_the_position() -> None:
    """The data are put back, and other changes come, so that the log is longer than the position again."""
    with PostgresServer(*LOGICAL) as server:
        orders = ChangedTable(server, "orders")
        orders.create()
        orders.run("insert into T values (1, 'Ann', 10)")
        with closing(orders.spout().open()) as executor:
            _, position = drained(executor)
            server.copy_at_rest()
            orders.run("insert into T values (2, 'lost', 1)")
            _, position = drained(executor, position)
        server.restore()
        told = problem(orders, position, DataLossError)
        assert "the server was restored from an older copy" in told
        orders.run("insert into T select n, 'other', n from generate_series(10, 200) n")
        told = problem(orders, position, DataLossError)
        assert "has a different history from the one that was read" in told


def test_a_slot_that_was_recreated_on_a_restored_server_is_noticed_before_the_first_change() -> None:
    """The position has no transaction yet that the slot could lack. A backup has no slots."""
    fill = "insert into filled select n from generate_series(1, 5000) n"
    with PostgresServer(*LOGICAL) as server:
        orders = ChangedTable(server, "orders")
        orders.create()
        orders.run("create table filled (n int)", "insert into T values (1, 'Ann', 10)")
        server.copy()
        orders.run("insert into T values (2, 'lost', 1)", fill)
        with closing(orders.spout().open()) as executor:
            read, position = drained(executor)
        assert len(read) == 2
        server.restore()
        orders.create_slot()
        orders.run(fill, fill, "insert into T values (3, 'Bob', 1)")
        assert "begins before, at 0/" in problem(orders, position, DataLossError)


def test_a_server_that_is_restored_between_a_reading_and_its_commit_keeps_its_changes() -> None:
    """The commit of the batch must not move the slot of a server that does not have the batch."""
    with PostgresServer(*LOGICAL) as server:
        orders = ChangedTable(server, "orders")
        orders.create()
        orders.run("insert into T values (1, 'Ann', 10)")
        with closing(orders.spout().open()) as executor:
            _, position = drained(executor)
            server.copy_at_rest()
            orders.run("insert into T values (2, 'lost', 1)")
            position = planned(executor, position)
            assert len(changes(executor, position)) == 1
            server.restore()
            orders.run("insert into T select n, 'other', n from generate_series(10, 200) n")
            executor.success(2, position)
            with pytest.raises(DataLossError, match="has a different history from the one that was read"):
                planned(executor, position)
        assert "has a different history" in problem(orders, position, DataLossError)


def test_a_planned_batch_is_read_again_by_a_run_whose_slot_was_not_advanced(orders: ChangedTable) -> None:
    """The driver died between the commit of a batch and the slot's advance, with a batch planned after it."""
    orders.run("insert into T values (1, 'Ann', 10)")
    with closing(orders.spout().open()) as executor:
        _, position = drained(executor)
        orders.run("update T set price = 11")
        committed = planned(executor, position)
        orders.run("update T set price = 12")
        assert changes(executor, committed)
        late = planned(executor, committed)
        expected = changes(executor, late)
    assert len(expected) == 2
    with closing(orders.spout().open()) as executor:
        executor.success(1, committed)
        assert changes(executor, late) == expected
        executor.success(2, late)
        assert planned(executor, late) is None


def test_a_slot_that_the_server_gave_up_is_a_loss() -> None:
    options = ("max_slot_wal_keep_size=1MB", "min_wal_size=32MB", "max_wal_size=32MB")
    with PostgresServer(*LOGICAL, *options) as server:
        orders = ChangedTable(server, "orders")
        orders.create()
        position = read_some(orders)
        for _ in range(5):
            server.run("create table big as select repeat('x', 1000) from generate_series(1, 30000)", "drop table big")
        server.run("checkpoint")
        told = problem(orders, position, DataLossError)
        assert "has given up the slot 'orders'" in told
        assert "pg_drop_replication_slot('orders')" in told


def test_rows_that_were_truncated_stop_the_stream_or_stay(orders: ChangedTable) -> None:
    position = read_some(orders)
    orders.run("truncate T", "insert into T values (3, 'Cy', 1)")
    assert "onTruncate='skip'" in problem(orders, position, SourceChangedError)
    with closing(orders.spout(onTruncate="skip").open()) as executor:
        assert drained(executor, position)[0] == [(3, "Cy", 1, "insert")]


def test_a_transaction_that_does_not_fit_in_memory_is_refused(orders: ChangedTable) -> None:
    position = read_some(orders)
    orders.run("insert into T select n, 'x', n from generate_series(10, 40) n")
    told = problem(orders, position, SourceChangedError, maxRowsPerTransaction=30)
    assert "changes more than 30 rows" in told
    with closing(orders.spout(maxRowsPerTransaction=31).open()) as executor:
        assert len(drained(executor, position)[0]) == 31


def test_first_rows_without_a_key_that_do_not_fit_in_memory_are_refused(orders: ChangedTable) -> None:
    orders.run(f"alter table T drop constraint {orders.name}_pkey")
    orders.run("insert into T select n, 'x', n from generate_series(1, 4) n")
    assert "has 4 rows and no primary key" in problem(orders, None, SourceUnreadableError, maxFirstRows=3)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("alter table T rename customer to client", "has no column 'customer'"),
        ("alter table T alter customer type int using 1", "column 'customer' was altered or recreated"),
        ("alter table T drop price, add price bigint default 3", "column 'price' was altered or recreated"),
    ],
)
def test_a_column_that_was_altered_stops_the_stream(orders: ChangedTable, statement: str, message: str) -> None:
    position = read_some(orders)
    orders.run(statement)
    orders.run("update T set price = 12")
    with (
        closing(orders.spout().open()) as executor,
        pytest.raises((SourceChangedError, TypeDeclarationError), match=message),
    ):
        changes(executor, planned(executor, position))


def test_a_column_may_become_wider(orders: ChangedTable) -> None:
    orders.run("alter table T alter price type int, alter customer type varchar(10)")
    position = read_some(orders)
    orders.run("alter table T alter price type bigint, alter customer type text", "update T set price = 3000000000")
    with closing(orders.spout().open()) as executor:
        assert [row[2] for row in drained(executor, position)[0]] == [11, 3_000_000_000]


def test_changes_before_a_column_was_altered_are_refused(orders: ChangedTable) -> None:
    position = read_some(orders)
    orders.run("update T set price = 12", "alter table T add city text", "update T set city = 'Rome'")
    fields = "id long, customer string, price long, city string"
    told = problem(orders, position, SourceChangedError, schema=fields)
    assert "'city'" in told
    assert "the table did not have it" in told


def test_a_column_that_is_not_read_may_be_altered(orders: ChangedTable) -> None:
    position = read_some(orders)
    orders.run("alter table T add city text default 'Rome'", "update T set price = 12", "alter table T drop city",
               "update T set price = 13")  # fmt: skip
    with closing(orders.spout().open()) as executor:
        assert [row[2] for row in drained(executor, position)[0]] == [11, 12, 12, 13]


def test_changes_without_the_former_row_are_refused(orders: ChangedTable) -> None:
    position = read_some(orders)
    orders.run("alter table T replica identity default")
    told = problem(orders, position, SourceUnreadableError)
    assert f"ALTER TABLE {orders.name} REPLICA IDENTITY FULL" in told
    orders.run("update T set id = 4", "alter table T replica identity full")
    assert "without their former values" in problem(orders, position, SourceChangedError)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("drop publication N", "there is no publication"),
        ("alter publication N drop table T", "is not in the publication"),
        ("alter publication N set (publish = 'insert, delete')", "leaves out update, truncate"),
        ("alter publication N set table T where (id > 3)", "has a WHERE"),
        ("alter publication N set table T (id, price)", "has a list of columns without 'customer'"),
        ("select pg_create_physical_replication_slot('N')", "has slot_type 'physical'; expected 'logical'"),
    ],
    ids=["no-publication", "not-in-it", "not-all-kinds", "where", "columns", "physical"],
)
def test_a_source_that_is_not_set_up_is_refused(orders: ChangedTable, statement: str, message: str) -> None:
    orders.run(statement.replace("N", orders.name))
    assert message in problem(orders, None, SourceUnreadableError)


def test_a_view_and_a_generated_column_are_refused(orders: ChangedTable) -> None:
    orders.run("create view T_view as select 1 as id", "alter table T add twice bigint generated always as (price * 2) "
               "stored")  # fmt: skip
    view = ChangedTable(orders.server, f"{orders.name}_view")
    assert "is not a table" in problem(view, None, SourceUnreadableError, schema="id int", slot=orders.name)
    assert "is generated" in problem(orders, None, TypeDeclarationError, schema=None)


def test_a_server_without_logical_replication_says_how_to_set_it() -> None:
    with PostgresServer() as server:
        orders = ChangedTable(server, "orders")
        orders.create()
        assert "Set wal_level = logical" in problem(orders, None, SourceUnreadableError)


def test_wrong_arguments_are_refused_at_once() -> None:
    from trident.spouts import PostgresChangesSpout

    for options, message in [
        ({"slot": ""}, "slot='' (str): expected the name of a slot"),
        ({"url": "mysql://x"}, "expected postgresql://"),
        ({"startingFrom": "earliest"}, "startingFrom='earliest'"),
        ({"onTruncate": "warn"}, "onTruncate='warn'"),
        ({"table": "a.b.c"}, "PostgresChangesSpout: table='a.b.c'"),
        ({"schema": "id long, _change_type string"}, "the column '_change_type'"),
    ]:
        given: dict[str, Any] = {"url": "env:U", "table": "t", "slot": "s", "publication": "p", **options}
        with pytest.raises(TopologyError) as raised:
            PostgresChangesSpout(**given)
        assert message in str(raised.value)
