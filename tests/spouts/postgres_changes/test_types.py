"""A value is the same in the rows at the beginning and in the log of changes, for every type that can be read."""

from contextlib import closing
from typing import Any

import pytest

from tests.spouts.jdbc.reads import emitted, planned
from tests.spouts.jdbc.test_types import TYPES, filled
from tests.spouts.postgres_changes.changed_table import ChangedTable, drained
from tests.support.postgres import PostgresServer
from trident.base.spark_types import ddl
from trident.errors import MalformedInputError, TypeDeclarationError

SETTINGS = {
    "timezone": "'Asia/Kolkata'",
    "datestyle": "'SQL, DMY'",
    "bytea_output": "escape",
    "extra_float_digits": -15,
}


@pytest.fixture
def values(postgres: PostgresServer, orders: ChangedTable) -> tuple[ChangedTable, list[dict[str, Any]]]:
    """A table with a column of each type, and its rows."""
    table = ChangedTable(postgres, f"{orders.name}_values")
    rows = filled(postgres, table.name)
    table.run("alter table T replica identity full", f"create publication {table.name} for table {table.name}")
    return table, rows


@pytest.mark.parametrize("settings", [{}, SETTINGS], ids=["plain", "odd-settings"])
def test_every_value_is_read_as_the_database_has_it(
    values: tuple[ChangedTable, list[dict[str, Any]]], settings: dict[str, Any]
) -> None:
    table, rows = values
    server = table.server
    server.run(*(f"alter database postgres set {name} = {value}" for name, value in settings.items()))
    try:
        spout = table.spout(None)
        kinds = ", ".join(f"{name} {kind}" for name, (_, kind, _) in TYPES.items())
        assert ddl(spout.schema) == f"id int, {kinds}, _change_type string"
        with closing(spout.open()) as executor:
            first = planned(executor)
            shown = emitted(executor, first).arrow().drop_columns("_change_type").to_pylist()
            table.run("delete from T")
            gone = emitted(executor, planned(executor, first)).arrow().drop_columns("_change_type").to_pylist()
    finally:
        server.run(*(f"alter database postgres reset {name}" for name in settings))
        table.drop_slot()
    by_id = {row["id"]: row for row in rows}
    assert {row["id"]: row for row in shown} == by_id
    assert {row["id"]: row for row in gone} == by_id


def test_any_type_may_be_read_as_the_text_that_the_database_writes(orders: ChangedTable) -> None:
    orders.run(
        "alter table T add span interval, add part int[], add net inet, add yes bool",
        "alter database postgres set intervalstyle = 'iso_8601'",
        "insert into T values (1, 'Ann', 10, '1 day 02:00', '{1,null}', '10.0.0.1/32', true)",
    )
    try:
        with closing(orders.spout("id string, span string, part string, net string, yes string").open()) as executor:
            read, position = drained(executor)
            orders.run("delete from T")
            gone, _ = drained(executor, position)
    finally:
        orders.server.run("alter database postgres reset intervalstyle")
    text = ("1", "1 day 02:00:00", "{1,NULL}", "10.0.0.1", "t")
    assert read == [(*text, "insert")]
    assert gone == [(*text, "delete")]


def test_types_that_no_field_holds_are_refused_by_name(orders: ChangedTable) -> None:
    orders.run("alter table T add span interval")
    with pytest.raises(TypeDeclarationError, match="PostgresChangesSpout: .*'span' has the type interval"):
        _ = orders.spout(None).schema


def test_a_value_that_does_not_fit_names_its_column(orders: ChangedTable) -> None:
    orders.run("alter table T add n numeric")
    with closing(orders.spout("id long, n decimal(5,2)").open()) as executor:
        _, position = drained(executor)
        orders.run("insert into T values (1, 'Ann', 10, 1.234)")
        with pytest.raises(MalformedInputError, match=r"PostgresChangesSpout: .*'n': expected decimal\(5,2\), got"):
            emitted(executor, planned(executor, position)).arrow()
