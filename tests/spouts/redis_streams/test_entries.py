"""Entries as tuples: types, missing and empty values, what is refused and how that is said."""

import datetime
from decimal import Decimal
from typing import Any

import pytest

from tests.support.plans import planned
from tests.support.server import RedisServer
from trident.base.attempt import TransactionAttempt
from trident.errors import DuplicateFieldError, MalformedInputError, TopologyError, TypeDeclarationError
from trident.spouts import RedisStreamSpout

UTC = datetime.UTC


def rows(server: RedisServer, schema: str | None = None, **options: Any) -> list[dict[str, Any]]:
    spout = RedisStreamSpout(server.url, "s", schema, **options)
    (plan,) = planned(spout)
    table = spout.open().emit(TransactionAttempt(1, 0), plan).arrow()
    return table.to_pylist()  # type: ignore[no-any-return]


def add(server: RedisServer, entry_id: str = "*", **fields: Any) -> None:
    server.client.xadd("s", fields, id=entry_id)


def test_every_type_is_read_as_from_csv(shared_redis: RedisServer) -> None:
    schema = (
        "i tinyint, k int, l long, f float, d double, m decimal(10,2), s string, b boolean, raw binary, day date, "
        "at timestamp, local timestamp_ntz"
    )
    values: dict[str, Any] = {
        "i": "-3",
        "k": "7",
        "l": str(2**60),
        "f": "0.5",
        "d": "1e3",
        "m": "12.50",
        "s": "caf\u00e9",
        "b": "TRUE",
        "raw": b"\x00\xff",
        "day": "1969-12-31",
        "at": "2024-01-01T13:00:00+01:00",
        "local": "2024-01-01 12:00:00",
    }
    add(shared_redis, **values)
    add(shared_redis, more="x")
    add(shared_redis, **dict.fromkeys(values, ""))
    full, missing, empty = rows(shared_redis, schema)
    assert full == {
        **{"i": -3, "k": 7, "l": 2**60, "f": 0.5, "d": 1000.0, "m": Decimal("12.50"), "s": "caf\u00e9", "b": True},
        **{"raw": b"\x00\xff", "day": datetime.date(1969, 12, 31)},
        **{"at": datetime.datetime(2024, 1, 1, 12, tzinfo=UTC), "local": datetime.datetime(2024, 1, 1, 12)},
    }
    assert set(missing.values()) == {None}
    assert empty == dict.fromkeys(values) | {"s": "", "raw": b""}


def test_without_a_schema_a_tuple_is_the_whole_entry(shared_redis: RedisServer) -> None:
    add(shared_redis, "5-1", word="cow", n=1)
    assert rows(shared_redis) == [{"id": "5-1", "stream": "s", "fields": [("word", "cow"), ("n", "1")]}]


def test_a_tuple_may_say_more_of_its_entry(shared_redis: RedisServer) -> None:
    add(shared_redis, "1704110400123-7", word="cow", n=1, more="x")
    extra = {"idField": "id", "streamField": "key", "timeField": "at", "othersField": "rest"}
    (row,) = rows(shared_redis, "word string", **extra)
    at = datetime.datetime(2024, 1, 1, 12, 0, 0, 123000, tzinfo=UTC)
    assert row == {
        "id": "1704110400123-7",
        "key": "s",
        "at": at,
        "word": "cow",
        "rest": [("n", "1"), ("more", "x")],
    }
    schema = RedisStreamSpout(shared_redis.url, "s", "word string", **extra).schema  # type: ignore[arg-type]
    assert schema.names == ["id", "key", "at", "word", "rest"]


def test_the_last_value_of_a_field_counts(shared_redis: RedisServer) -> None:
    shared_redis.client.execute_command("XADD", "s", "*", "n", "1", "n", "2")  # type: ignore[no-untyped-call]
    assert rows(shared_redis, "n long") == [{"n": 2}]


def test_numbers_and_times_may_be_read_leniently(shared_redis: RedisServer) -> None:
    add(shared_redis, n="517.0", at="2024-07-01 12:00:00")
    (row,) = rows(shared_redis, "n long, at timestamp", numbers="lenient", timeZone="Europe/Berlin")
    assert row == {"n": 517, "at": datetime.datetime(2024, 7, 1, 10, tzinfo=UTC)}


@pytest.mark.parametrize(
    ("schema", "fields", "message"),
    [
        ("n long", {"n": "many"}, "field 'n': expected bigint, got 'many'; declare it as a string,"),
        ("n long", {"n": "517.0"}, r"expected bigint, got '517.0' \(numbers=\"lenient\" reads it\)"),
        ("n tinyint", {"n": "300"}, "expected tinyint, got '300'"),
        ("at timestamp", {"at": "2024-01-01 12:00:00"}, "it has no time zone: declare timestamp_ntz, or set timeZ"),
        (
            "s string",
            {"s": b"\xff"},
            "field 's': expected string, got bytes that are not valid UTF-8; declare it as binary",
        ),
        ("n long not null", {"s": "x"}, "field 'n': null, but the field is NOT NULL"),
        ("n long not null", {"n": ""}, "field 'n': null, but the field is NOT NULL"),
    ],
)
def test_a_value_that_does_not_fit_is_named(
    shared_redis: RedisServer, schema: str, fields: dict[str, Any], message: str
) -> None:
    add(shared_redis, "1-0", n="1", s="x", at="2024-01-01T00:00:00Z")
    add(shared_redis, "2-5", **fields)
    with pytest.raises(MalformedInputError, match=f"RedisStreamSpout: stream 's', entry 2-5: .*{message}"):
        rows(shared_redis, schema)


def test_an_entry_whose_id_is_no_time_is_named(shared_redis: RedisServer) -> None:
    add(shared_redis, f"{2**60}-0", n=1)
    with pytest.raises(
        MalformedInputError, match="entry 1152921504606846976-0: field 'at': the id is not a valid time"
    ):
        rows(shared_redis, "n long", timeField="at")


def test_the_greatest_id_is_read_and_ends_the_stream(shared_redis: RedisServer) -> None:
    greatest = f"{2**64 - 1}-{2**64 - 1}"
    for entry_id in ("1-0", "2-0", f"{2**64 - 1}-{2**64 - 2}", greatest):
        add(shared_redis, entry_id, n=entry_id)
    for limit in (1, 2, 4, 9):
        spout = RedisStreamSpout(shared_redis.url, "s", "n string", maxEntriesPerBatch=limit)
        plans = planned(spout)
        tables = [spout.open().emit(TransactionAttempt(1, 0), plan).arrow() for plan in plans]
        assert [n for table in tables for n in table.column("n").to_pylist()][-1] == greatest
        assert sum(table.num_rows for table in tables) == 4


def test_a_map_of_undeclared_fields_is_text(shared_redis: RedisServer) -> None:
    add(shared_redis, "1-0", raw=b"\xff")
    assert rows(shared_redis, "raw binary", othersField="rest") == [{"raw": b"\xff", "rest": []}]
    with pytest.raises(
        MalformedInputError, match="entry 1-0: a field that is not declared has bytes that are not UTF-8"
    ):
        rows(shared_redis, "n long", othersField="rest")


# --- the description ----------------------------------------------------------------------------------------------


def test_a_repr_shows_what_was_given_and_no_password() -> None:
    url = "redis://me:secret@server:6379/0"
    assert repr(RedisStreamSpout(url, "s")) == "RedisStreamSpout('redis://me:***@server:6379/0', 's')"
    spout = RedisStreamSpout(
        url,
        ["a", "b"],
        "n long",
        kind="opaque",
        startingIds={"b": "5"},
        onDataLoss="warn",
        idField="id",
        retrySecs="1m",
    )
    assert repr(spout) == (
        "RedisStreamSpout('redis://me:***@server:6379/0', ['a', 'b'], 'n bigint', kind='opaque', "
        "startingIds={'b': '5-0'}, onDataLoss='warn', idField='id', retrySecs=60)"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"url": "http://x"}, "RedisStreamSpout: url 'http://x': expected redis://, rediss://"),
        ({"url": 7}, r"RedisStreamSpout: url=7 \(int\): expected text"),
        ({"streams": []}, r"streams=\[\]: expected the key of a stream, or several"),
        ({"streams": 7}, "streams=7: expected the key of a stream, or several"),
        ({"streams": ["a", "a"]}, "the stream 'a' is given twice"),
        ({"kind": "nonTransactional"}, "kind='nonTransactional': expected 'transactional' or 'opaque'"),
        ({"onDataLoss": "skip"}, "onDataLoss='skip': expected 'fail' or 'warn'"),
        ({"startingIds": "$"}, r"startingIds='\$': expected 'earliest', 'latest', an id such as '1526985054069-0'"),
        ({"startingIds": datetime.datetime(2024, 1, 1)}, "or a datetime with a time zone"),
        ({"startingIds": {"b": "latest"}}, "startingIds names 'b'; the streams are 's'"),
        ({"startingIds": {"s": 7}}, r"startingIds\['s'\]=7: expected 'earliest'"),
        ({"maxEntriesPerBatch": 0}, "maxEntriesPerBatch=0: expected a whole number of at least 1"),
        ({"maxBytesPerBatch": True}, "maxBytesPerBatch=True: expected a whole number of at least 1"),
        ({"numbers": "loose"}, "numbers='loose' is not one of 'strict', 'lenient'"),
        ({"timeZone": "Berlin"}, "timeZone='Berlin': expected a zone's name"),
        ({"retrySecs": "soon"}, "retrySecs='soon' is not a duration"),
        ({"socketTimeout": 0}, "socketTimeout=0: expected a positive duration"),
        ({"schema": ""}, None),
        (
            {"schema": "p map<string,int>"},
            "an entry has no values of type map<string,int>, the type of 'p'; declare it",
        ),
        ({"schema": "id long", "idField": "id"}, "field 'id' is given twice"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str | None) -> None:
    given: dict[str, Any] = {"url": "redis://localhost", "streams": "s"} | arguments
    with pytest.raises((TopologyError, TypeDeclarationError, DuplicateFieldError), match=message):
        RedisStreamSpout(given.pop("url"), given.pop("streams"), **given)


def test_a_start_may_be_a_time() -> None:
    time = datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.timezone(datetime.timedelta(hours=1)))
    assert RedisStreamSpout("redis://x", "s", startingIds=time).starts == ("1704106799999-18446744073709551615",)
