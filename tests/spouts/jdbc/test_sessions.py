"""Values that are older than the transactions that insert them: of one message with several, or chosen by a program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.spouts.jdbc.reads import drained, planned
from tests.support.postgres import PostgresServer
from tests.support.waiting import wait_until
from trident.errors import TopologyError
from trident.spouts import JdbcSpout
from trident_spouts.jdbc.final_values import Finality, Moment, UnderWay
from trident_spouts.jdbc.order_column import OrderColumn
from trident_spouts.jdbc.relation import Source

HIDDEN = "the user may not see the queries of other users' sessions (pg_stat_activity), so"


def opened(url: str, table: str, **options: Any) -> Any:
    return JdbcSpout(url, table, "word string", **{"orderBy": "at", **options}).open()


def awaited(executor: Any) -> list[Any]:
    """Return the rows of a new stream, once some are final."""
    wait_until(lambda: planned(executor) is not None)
    return drained(executor)[0]


class Gates:
    """Advisory locks, at which a session waits until the test opens them."""

    def __init__(self, postgres: PostgresServer) -> None:
        self._connection = postgres.connect()
        self._connection.execute("select pg_advisory_lock(1), pg_advisory_lock(2)")

    def wait(self, number: int) -> None:
        """Wait until a session waits at this gate."""
        asked = f"select from pg_locks where locktype = 'advisory' and not granted and objid = {number}"
        wait_until(lambda: bool(self._connection.execute(asked.encode()).fetchall()))

    def open(self, number: int) -> None:
        self._connection.execute(f"select pg_advisory_unlock({number})".encode())

    def close(self) -> None:
        self._connection.close()


@contextmanager
def sent(postgres: PostgresServer, *statements: str) -> Iterator[Any]:
    """Run all statements but the last one, and send that as one message; its result is awaited after the block."""
    with postgres.connect() as connection:
        for statement in statements[:-1]:
            connection.execute(statement.encode())
        connection.pgconn.send_query(statements[-1].encode())
        yield connection
        while connection.pgconn.get_result() is not None:
            pass


PASSES = "select pg_advisory_lock({0}), pg_advisory_unlock({0})"
SEVERAL = "; ".join([
    "begin", "insert into {0} values (default, 'first')", PASSES.format(1), "commit",
    "begin", PASSES.format(2), "insert into {0} values (default, 'second')", "commit",
])  # fmt: skip
PROCEDURE = (
    "create procedure {0}_p() language plpgsql as $$ begin insert into {0} values (default, 'first'); perform "
    "pg_advisory_lock(1), pg_advisory_unlock(1); commit; perform pg_advisory_lock(2), pg_advisory_unlock(2); insert "
    "into {0} values (default, 'second'); commit; end $$"
)
CHAINED = (
    "create function {0}_f() returns trigger language plpgsql as $$ begin perform pg_advisory_lock(1), "
    "pg_advisory_unlock(1); return null; end $$; create constraint trigger slow after insert on {0} deferrable "
    "initially deferred for each row when (new.word = 'first') execute function {0}_f()"
)
MESSAGES: dict[str, tuple[str, str, list[str]]] = {
    "several transactions": ("now()", "select 1", [SEVERAL]),
    "a time of the statement": ("statement_timestamp()", PROCEDURE, ["call {0}_p()"]),
    "commit and chain": (
        "now()",
        CHAINED,
        [
            "begin",
            "insert into {0} values (default, 'first')",
            f"commit and chain; {PASSES.format(2)}; insert into {{0}} values (default, 'second'); commit",
        ],
    ),
}


@pytest.mark.parametrize("seen_by", ["owner", "reader"])
@pytest.mark.parametrize("message", MESSAGES)
def test_a_transaction_whose_time_is_that_of_a_message_is_waited_for(
    postgres: PostgresServer, table: str, message: str, seen_by: str, caplog: pytest.LogCaptureFixture
) -> None:
    default, made, statements = MESSAGES[message]
    postgres.run(f"create table {table} (at timestamptz not null default {default}, word text)", made.format(table))
    url = postgres.url
    if seen_by == "reader":
        postgres.run(f"create role {table} login password 'x'", f"grant select on {table} to {table}")
        url = f"postgresql://{table}:x@{postgres.place}"
    executor, gates = opened(url, table), Gates(postgres)
    with sent(postgres, *(statement.format(table) for statement in statements)):
        gates.wait(1)
        postgres.run(f"insert into {table} values (default, 'other')")
        assert planned(executor) is None
        gates.open(1)
        gates.wait(2)
        for _ in range(3):
            assert planned(executor) is None, "the second row is still to come, with a time before the other one"
        gates.open(2)
    assert awaited(executor) == ["first", "other", "second"]
    assert [HIDDEN in told for told in caplog.messages] == ([True] if seen_by == "reader" else [])
    executor.close()
    gates.close()


def test_a_session_that_runs_what_came_later_holds_nothing_up(postgres: PostgresServer, table: str) -> None:
    """A session that never rests: it is known from the time of its message that it adds no row before."""
    postgres.run(f"create table {table} (at timestamptz not null default now(), word text)")
    executor, gates = opened(postgres.url, table), Gates(postgres)
    with sent(postgres, "begin", PASSES.format(1)) as busy:
        gates.wait(1)
        postgres.run(f"insert into {table} values (default, 'a')")
        assert planned(executor) is None
        gates.open(1)
        while busy.pgconn.get_result() is not None:
            pass
        busy.execute("rollback")
        busy.pgconn.send_query(f"begin; {PASSES.format(2)}; commit".encode())
        gates.wait(2)
        assert drained(executor)[0] == ["a"]
        gates.open(2)
    executor.close()
    gates.close()


def test_a_number_that_a_program_chose_within_its_transaction_is_waited_for(
    postgres: PostgresServer, table: str
) -> None:
    postgres.run(f"create table {table} (id bigint primary key, word text)", f"create table {table}_x (n int)")
    executor = opened(postgres.url, table, orderBy="id")
    with postgres.transaction(f"insert into {table}_x values (1)") as late:
        postgres.run(f"insert into {table} values (2, 'b')")
        assert planned(executor) is None
        late.execute(f"insert into {table} values (1, 'a')".encode())
        late.execute("commit")
    assert drained(executor)[0] == ["a", "b"]
    executor.close()


@pytest.mark.parametrize("kind", ["timestamptz", "timestamptz(0)"])
def test_times_of_programs_are_refused_without_a_lag(postgres: PostgresServer, table: str, kind: str) -> None:
    postgres.run(f"create table {table} (at {kind} not null, word text)", f"insert into {table} values (now(), 'a')")
    executor = opened(postgres.url, table)
    with pytest.raises(
        TopologyError, match='at has no default, so programs or triggers .* COLUMN "at" SET DEFAULT now'
    ):
        planned(executor)
    executor.close()
    lagging = opened(postgres.url, table, isolationLag=3600)
    assert planned(lagging) is None
    lagging.close()
    postgres.run(f"alter table {table} alter column at set default now()")
    told = opened(postgres.url, table)
    assert awaited(told) == ["a"]
    told.close()


def test_a_default_that_is_dropped_changes_what_is_waited_for(postgres: PostgresServer, table: str) -> None:
    """The plan that notices it has looked at the sequence's transactions alone."""
    postgres.run(f"create table {table} (id bigserial, word text)", f"insert into {table} (word) values ('a')")
    executor = opened(postgres.url, table, orderBy="id")
    read, position = drained(executor)
    postgres.run(f"alter table {table} alter column id drop default")
    with postgres.transaction("select 1") as late:
        postgres.run(f"insert into {table} values (9, 'c')")
        assert planned(executor, position) is None
        late.execute(f"insert into {table} values (8, 'b')".encode())
        late.execute("commit")
    assert read + drained(executor, position)[0] == ["a", "b", "c"]
    executor.close()


def seen(table: str, *looks: UnderWay) -> list[str | None]:
    """Return what is final after each look, a second apart, if the value was seen at the first of them."""
    finality = Finality(OrderColumn(Source(table, table, None), "id", "bigint"), 0)
    return [finality.of("5", look, Moment(100 + at, 1000 + at)) for at, look in enumerate(looks)]


def test_what_is_hidden_must_be_gone_at_two_looks() -> None:
    hidden = UnderWay({"7": None}, frozenset({"7"}))
    none = UnderWay({})
    assert seen("t", hidden, none, none) == [None, None, "5"]
    assert seen("t", hidden, none, hidden, none, none) == [None, None, None, None, "5"]
    assert seen("t", UnderWay({"7": None}), none) == [None, "5"]


def test_a_session_counts_by_the_time_of_what_it_runs() -> None:
    def since(time: float | None) -> UnderWay:
        return UnderWay({"7": time})

    assert seen("t", since(990), since(990), since(1001.5)) == [None, None, "5"]
    assert seen("t", since(990), since(None), since(1000)) == [None, None, None]
    assert seen("t", since(990), since(9000)) == [None, None], "the clock was set back since"
    both = UnderWay({"7": 990, "8": 995})
    assert seen("t", both, since(990), UnderWay({"8": 995})) == [None, None, "5"], "each was seen at rest once"


def test_what_was_prepared_meanwhile_is_waited_for() -> None:
    one, prepared = UnderWay({"7": 990}), UnderWay({"-1/33": None})
    assert seen("t", one, prepared, prepared, UnderWay({})) == [None, None, None, "5"]
    assert seen("t", UnderWay({}), prepared) == ["5", "5"]
