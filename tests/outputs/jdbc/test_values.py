"""Values come into the columns unchanged, in all types that a column can have."""

import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from tests.outputs.jdbc.outlets import outlet
from tests.support.postgres import PostgresServer
from trident.base.spark_types import arrow_schema, parse_schema
from trident.errors import OutputRefusedError

UTC = datetime.UTC
MOMENT = datetime.datetime(2024, 2, 29, 23, 59, 59, 999999)
CASES: list[tuple[str, str, list[Any], list[Any] | None]] = [
    ("string", "text", ["", "a\"b,'\n\\.\r\t", None, "Zoë \\N"], None),
    ("string", "varchar(3)", ["abc"], None),
    ("string", "jsonb", ['{"a": [1, null]}'], [{"a": [1, None]}]),
    ("boolean", "boolean", [True, False, None], None),
    ("byte", "smallint", [-128, 127], None),
    ("short", "integer", [-32768, None], None),
    ("int", "bigint", [-(2**31), 2**31 - 1], None),
    ("long", "bigint", [-(2**63), 2**63 - 1, None], None),
    ("long", "numeric(19)", [-(2**63)], [Decimal(-(2**63))]),
    ("float", "real", [0.1, -0.0, 3.4028235e38, float("inf")], None),
    ("float", "double precision", [0.1, -0.0, 3.4028235e38], [0.10000000149011612, -0.0, 3.4028234663852886e38]),
    ("double", "double precision", [0.1, 5e-324, 1.7976931348623157e308, float("-inf"), None], None),
    ("decimal(38,18)", "numeric", [Decimal("-0.000000000000000001"), Decimal("1.500000000000000000"), None], None),
    ("decimal(5,2)", "numeric(10,4)", [Decimal("123.45")], None),
    ("date", "date", [datetime.date(1, 1, 1), datetime.date(9999, 12, 31), None], None),
    ("timestamp", "timestamptz", [MOMENT.replace(tzinfo=UTC), datetime.datetime(1, 1, 1, tzinfo=UTC), None], None),
    ("timestamp_ntz", "timestamp(6)", [MOMENT, None], None),
    ("binary", "bytea", [b"", b"\x00\xff\\", None], None),
    ("array<string>", "jsonb", [["a", None], [], None], None),
    ("struct<a: long, b: date>", "json", [{"a": 1, "b": datetime.date(2024, 2, 29)}], [{"a": 1, "b": "2024-02-29"}]),
]


@pytest.mark.parametrize("key", [(), ("id",)])
@pytest.mark.parametrize(("field", "column", "values", "read"), CASES)
def test_values_stay_the_same(
    postgres: PostgresServer,
    table: str,
    field: str,
    column: str,
    values: list[Any],
    read: list[Any] | None,
    key: tuple[str, ...],
) -> None:
    postgres.run(f'create table {table} (id bigint primary key, "Value" {column})')
    fields = f"id long, Value {field}"
    schema = arrow_schema(parse_schema(fields))
    rows = pa.table({"id": list(range(len(values))), "Value": pa.array(values, schema.field("Value").type)})
    made = outlet(postgres.url, table, fields, key=key)
    made.take(rows, 1)
    made.close()
    with postgres.connect() as connection:
        connection.execute(b"set timezone = 'UTC'")
        found = connection.execute(f'select "Value" from {table} order by id'.encode()).fetchall()
    assert [value for (value,) in found] == (values if read is None else read)


def test_a_time_that_the_server_would_misread_is_refused(postgres: PostgresServer, table: str) -> None:
    postgres.run(f"create table {table} (v timestamptz)")
    made = outlet(postgres.url, table, "v timestamp")
    with pytest.raises(OutputRefusedError, match="cannot take batch 1: field 'v' has the time .*outside the years"):
        made.take(pa.table({"v": pa.array([-(2**60)], pa.timestamp("us", "UTC"))}), 1)
    made.close()


def test_keys_that_are_one_key_for_the_server_are_one_row(postgres: PostgresServer, table: str) -> None:
    """Write two spellings of a uuid: the last tuple decides, also if it takes the row away."""
    postgres.run(f"create table {table} (id uuid primary key, v bigint)")
    lower = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
    made = outlet(postgres.url, table, "id string, v long, _change_type string", key=("id",), changes=True)
    kinds = pa.array(["insert", "insert"])
    made.take(pa.table({"id": [lower, lower.upper()], "v": [1, 2], "_change_type": kinds}), 1)
    with postgres.connect() as connection:
        assert connection.execute(f"select v from {table}".encode()).fetchall() == [(2,)]
        kinds = pa.array(["update_postimage", "delete"])
        made.take(pa.table({"id": [lower, lower.upper()], "v": [3, 3], "_change_type": kinds}), 2)
        assert connection.execute(f"select v from {table}".encode()).fetchall() == []
    made.close()
