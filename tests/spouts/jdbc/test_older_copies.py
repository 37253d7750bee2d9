"""A server that is restored from an older copy during a run gives numbers to new rows that other rows had before."""

from typing import Any

import psycopg
import pytest

from tests.spouts.jdbc.reads import drained, planned
from tests.spouts.jdbc.tables import GIVEN, SERIAL, filled, opened
from tests.support.postgres import PostgresServer


def insert(table: str, kind: str, number: int) -> str:
    """Return the statement that inserts the row with a number, which a serial column gives itself."""
    names, values = ("id, word", f"{number}, 'word'") if kind == GIVEN else ("word", "'word'")
    return f"insert into {table} ({names}) values ({values})"


def under_way(postgres: PostgresServer, table: str, kind: str) -> "psycopg.Connection[Any]":
    """Add row 7 while row 6 is not committed yet. Return the connection of its transaction."""
    connection = postgres.connect()
    connection.execute("begin")
    connection.execute(insert(table, kind, 6).encode())
    postgres.run(insert(table, kind, 7))
    return connection


@pytest.mark.parametrize("kind", [SERIAL, GIVEN])
def test_values_that_an_older_copy_gives_again_are_not_final_yet(mortal: PostgresServer, table: str, kind: str) -> None:
    """A run saw 7 before the server went back to 5: its next 7 is another row, and 6 may still be committed."""
    filled(mortal, table, kind)
    mortal.copy_at_rest()
    executor = opened(mortal, table)
    read, position = drained(executor)
    assert len(read) == 5
    waiting = under_way(mortal, table, kind)
    assert planned(executor, position) is None
    mortal.restore()
    waiting.close()
    with mortal.transaction(insert(table, kind, 6)) as late:
        mortal.run(insert(table, kind, 7))
        assert planned(executor, position) is None, "7 is there, and 6 may come"
        late.execute("commit")
    assert len(drained(executor, position)[0]) == 2
    executor.close()


@pytest.mark.parametrize("kind", [SERIAL, GIVEN])
def test_a_stream_from_the_latest_row_begins_at_the_end_of_an_older_copy(
    mortal: PostgresServer, table: str, kind: str
) -> None:
    """Its first plan waited at 7; a server that went back to 5 gives 6 and 7 to rows that come later."""
    filled(mortal, table, kind)
    mortal.copy_at_rest()
    executor = opened(mortal, table, startingFrom="latest")
    waiting = under_way(mortal, table, kind)
    assert planned(executor) is None, "6 may still come"
    mortal.restore()
    waiting.close()
    position = planned(executor)
    for number in (6, 7):
        mortal.run(insert(table, kind, number))
    assert len(drained(executor, position)[0]) == 2
    executor.close()
