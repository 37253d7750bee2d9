"""Each value as the database has it, for every type that can be read; the others are refused by name."""

import datetime
import math
from decimal import Decimal
from typing import Any

import pytest

from tests.spouts.jdbc.reads import emitted, planned, planned_soon
from tests.support.postgres import PostgresServer
from trident.base.spark_types import ddl
from trident.errors import MalformedInputError, TypeDeclarationError
from trident.spouts import JdbcSpout

UTC = datetime.UTC

# type of the column, type of the field, and literals of SQL with the values that are read
TYPES: dict[str, tuple[str, str, list[tuple[str, Any]]]] = {
    "bool": ("boolean", "boolean", [("true", True), ("false", False)]),
    "short": ("smallint", "smallint", [("-32768", -(2**15)), ("32767", 2**15 - 1)]),
    "int": ("integer", "int", [(f"{-(2**31)}", -(2**31)), ("7", 7)]),
    "long": ("bigint", "bigint", [(f"{-(2**63)}", -(2**63)), (f"{2**63 - 1}", 2**63 - 1)]),
    "real": ("real", "float", [("1.5", 1.5), ("'-Infinity'", -math.inf)]),
    "double": ("double precision", "double", [("0.1", 0.1), ("1e-308", 1e-308), ("'Infinity'", math.inf)]),
    "price": ("numeric(9,2)", "decimal(9,2)", [("1.5", Decimal("1.50")), ("-9999999.99", Decimal("-9999999.99"))]),
    "huge": ("numeric(38,0)", "decimal(38,0)", [("9" * 38, Decimal("9" * 38))]),
    "text": ("text", "string", [("''", ""), ("'a,\"b\"\n\\.\r\tü€𝄞'", 'a,"b"\n\\.\r\tü€𝄞'), ("'NULL'", "NULL")]),
    "char": ("char(5)", "string", [("'ab'", "ab   ")]),
    "varchar": ("varchar(5)", "string", [("' '", " "), ("'\"\"'", '""')]),
    "bytes": ("bytea", "binary", [(r"'\x00ff0a2c22'", b'\x00\xff\n,"'), ("''", b"")]),
    "json": ("json", "string", [("'{\"a\":  [1]}'", '{"a":  [1]}'), ("'null'", "null")]),
    "jsonb": ("jsonb", "string", [('\'{"b": 1, "a": null}\'', '{"a": null, "b": 1}')]),
    "uuid": ("uuid", "string", [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    "mood": ("mood", "string", [("'so, so'", "so, so")]),
    "word": ("word", "string", [("'domain'", "domain")]),
    "day": ("date", "date", [("'2024-02-29'", datetime.date(2024, 2, 29)), ("'0001-01-01'", datetime.date(1, 1, 1))]),
    "wall": (
        "timestamp",
        "timestamp_ntz",
        [
            ("'2024-03-31 02:30:00.000001'", datetime.datetime(2024, 3, 31, 2, 30, 0, 1)),
            ("'9999-12-31 23:59:59.999999'", datetime.datetime(9999, 12, 31, 23, 59, 59, 999999)),
            ("'2024-01-01 00:00:00.5'", datetime.datetime(2024, 1, 1, microsecond=500_000)),
        ],
    ),
    "moment": (
        "timestamptz",
        "timestamp",
        [
            ("'2024-03-31 02:30:00.25+05:30'", datetime.datetime(2024, 3, 30, 21, 0, 0, 250_000, tzinfo=UTC)),
            ("'1969-12-31 23:59:59+00'", datetime.datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)),
        ],
    ),
}


def filled(postgres: PostgresServer, table: str) -> list[dict[str, Any]]:
    """Make a table with a column of each type; return its rows, the last one of nulls."""
    with postgres.connect() as connection:
        if connection.execute("select from pg_type where typname = 'mood'").rowcount == 0:
            connection.execute("create type mood as enum ('so, so')")
            connection.execute("create domain word as text check (value <> '')")
    columns = ", ".join(f'"{name}" {kind}' for name, (kind, _, _) in TYPES.items())
    length = max(len(values) for _, _, values in TYPES.values()) + 1
    rows, statements = [], []
    for at in range(length):
        row = {name: values[at] if at < len(values) else ("null", None) for name, (_, _, values) in TYPES.items()}
        statements.append(f"insert into {table} values ({at}, {', '.join(text for text, _ in row.values())})")
        rows.append({"id": at} | {name: value for name, (_, value) in row.items()})
    postgres.run(f"create table {table} (id int primary key, {columns})", *statements)
    return rows


def test_every_value_is_read_as_the_database_has_it(postgres: PostgresServer, table: str) -> None:
    rows = filled(postgres, table)
    spout = JdbcSpout(postgres.url, table, orderBy="id")
    assert ddl(spout.schema) == ", ".join(["id int", *(f"{name} {kind}" for name, (_, kind, _) in TYPES.items())])
    executor = spout.open()
    read = emitted(executor, planned_soon(executor)).arrow().to_pylist()
    assert sorted(read, key=lambda row: row["id"]) == rows
    executor.close()


def test_a_relation_of_one_text_column_is_read_with_its_nulls(postgres: PostgresServer, table: str) -> None:
    """In CSV, one null column is an empty line."""
    values = [None, "", " ", "\\N", "\\.", '"', '""', ",", "\n", "\r\n", "\r", "a\nb", "NULL", 'a,b"c"', "'", None, ""]
    postgres.run(
        f"create table {table} (id bigserial primary key, v text)",
        f"create view {table}_one as select id, v from {table}",
    )
    with postgres.connect() as session:
        for value in values:
            session.execute(f"insert into {table} (v) values (%s)", (value,))
    executor = JdbcSpout(postgres.url, f"{table}_one", "v string", orderBy="id").open()
    assert emitted(executor, planned_soon(executor)).arrow().column("v").to_pylist() == values
    executor.close()


def test_the_settings_of_the_database_change_no_value(postgres: PostgresServer, table: str) -> None:
    rows = filled(postgres, table)
    postgres.run(
        "alter database postgres set timezone = 'Asia/Kolkata'",
        "alter database postgres set datestyle = 'SQL, DMY'",
        "alter database postgres set bytea_output = 'escape'",
        "alter database postgres set extra_float_digits = -15",
        "alter database postgres set quote_all_identifiers = on",
    )
    try:
        executor = JdbcSpout(postgres.url, table, orderBy="id").open()
        read = emitted(executor, planned_soon(executor)).arrow().to_pylist()
        executor.close()
    finally:
        for name in ("timezone", "datestyle", "bytea_output", "extra_float_digits", "quote_all_identifiers"):
            postgres.run(f"alter database postgres reset {name}")
    assert sorted(read, key=lambda row: row["id"]) == rows


@pytest.mark.parametrize("kind", ["interval", "time", "int[]", "point", "money", "inet"])
def test_a_type_that_no_field_holds_is_refused_by_name_and_read_as_text(
    postgres: PostgresServer, table: str, kind: str
) -> None:
    postgres.run(f"create table {table} (id int primary key, odd {kind})")
    shown = {"int[]": r"integer\[\]", "time": "time without time zone"}.get(kind, kind)
    message = (
        f"table {table}: column 'odd' has the type {shown}, which no field type can hold exactly.*'odd string' "
        f"for its text"
    )
    with pytest.raises(TypeDeclarationError, match=message):
        _ = JdbcSpout(postgres.url, table, orderBy="id").schema
    literal = {"int[]": "{1,NULL}", "point": "(1,2)", "interval": "1 day", "inet": "10.0.0.1/32"}.get(kind, "10:00")
    if kind != "money":
        postgres.run(f"insert into {table} values (1, '{literal}')")
    executor = JdbcSpout(postgres.url, table, "id int, odd string", orderBy="id").open()
    plan = planned(executor)
    read = emitted(executor, plan).arrow().to_pylist() if plan else []
    assert [row["odd"][:5] for row in read] == ([] if kind == "money" else [literal[:5].removesuffix("/32")])
    executor.close()


def test_a_numeric_without_precision_must_be_declared_and_each_value_is_checked(
    postgres: PostgresServer, table: str
) -> None:
    postgres.run(
        f"create table {table} (id int primary key, n numeric)", f"insert into {table} values (1, 2.25), (2, 3)"
    )
    with pytest.raises(TypeDeclarationError, match=r"type numeric without a precision.*'n decimal\(20,4\)'"):
        _ = JdbcSpout(postgres.url, table, orderBy="id").schema
    executor = JdbcSpout(postgres.url, table, "n decimal(5,2)", orderBy="id").open()
    plan = planned(executor)
    assert emitted(executor, plan).arrow().column("n").to_pylist() == [Decimal("2.25"), Decimal("3.00")]
    for value in ("1.234", "12345", "'NaN'", "'Infinity'"):
        postgres.run(f"update {table} set n = {value} where id = 2")
        with pytest.raises(MalformedInputError, match=rf"table {table}, column 'n': expected decimal\(5,2\), got"):
            emitted(executor, planned_soon(executor)).arrow()
    executor.close()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("date", "infinity"),
        ("timestamp", "-infinity"),
        ("timestamptz", "0044-03-15 BC"),
        ("timestamptz", "12000-01-01"),
    ],
)
def test_a_time_that_nobody_else_has_is_refused(postgres: PostgresServer, table: str, kind: str, value: str) -> None:
    postgres.run(f"create table {table} (id int primary key, at {kind})", f"insert into {table} values (1, '{value}')")
    executor = JdbcSpout(postgres.url, table, orderBy="id").open()
    with pytest.raises(MalformedInputError, match="column 'at': expected .*; declare the field as string to get"):
        emitted(executor, planned_soon(executor)).arrow()
    executor.close()
    executor = JdbcSpout(postgres.url, table, "at string", orderBy="id").open()
    ((text,),) = emitted(executor, planned_soon(executor)).arrow().to_pydict().values()
    assert text.startswith(value.removesuffix(" BC"))
    executor.close()


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("n int", "column 'n' has the type bigint, but its field is declared as int; expected bigint or string"),
        ("n double", "column 'n' has the type bigint, but its field is declared as double; expected bigint or string"),
        ("p decimal(8,2)", r"declared as decimal\(8,2\); expected decimal\(9,2\) or string"),
        ("p decimal(9,1)", r"declared as decimal\(9,1\); expected decimal\(9,2\) or string"),
        ("other int", "has no column 'other'; its columns are id, n, p"),
    ],
)
def test_a_field_must_hold_every_value_of_its_column(
    postgres: PostgresServer, table: str, declared: str, message: str
) -> None:
    postgres.run(f"create table {table} (id int primary key, n bigint, p numeric(9,2))")
    executor = JdbcSpout(postgres.url, table, declared, orderBy="id").open()
    with pytest.raises(TypeDeclarationError, match=message):
        planned(executor)
    executor.close()


def test_a_field_may_be_wider_than_its_column(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} (id smallint primary key, f real, p numeric(9,2), n int)",
        f"insert into {table} values (1, 1.5, 2.25, 3)",
    )
    executor = JdbcSpout(postgres.url, table, "n string, id long, f double, p decimal(12,4)", orderBy="id").open()
    (row,) = emitted(executor, planned_soon(executor)).arrow().to_pylist()
    assert row == {"n": "3", "id": 1, "f": 1.5, "p": Decimal("2.2500")}
    executor.close()
