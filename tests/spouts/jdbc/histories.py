"""Random histories of a table and of a spout that reads it, with an oracle: the rows that were committed."""

import itertools
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from tests.spouts.jdbc.reads import emitted, planned
from tests.support.postgres import PostgresServer
from trident.errors import DataLossError, SourceUnreadableError
from trident.spouts import JdbcSpout

SESSIONS = 3
PATIENCE_SECS = 60.0

SERIAL = "create table {0} (id bigserial primary key, item text, n int default 0)"
RELATIONS: dict[str, tuple[str, list[str]]] = {
    "serial": ("{0}", [SERIAL]),
    "identity": ("{0}", ["create table {0} (id int generated always as identity primary key, item text, n int)"]),
    "nextval": ("{0}", [
        "create sequence {0}_s", "create table {0} (id int default nextval('{0}_s') primary key, item text, n int)",
    ]),
    "time": ("{0}", ["create table {0} (id timestamptz default now(), item text, n int)", "create index on {0} (id)"]),
    "clock": ("{0}", ["create table {0} (id timestamptz default clock_timestamp(), item text, n int)"]),
    "rounded": ("{0}", ["create table {0} (id timestamptz(1) default now(), item text, n int)"]),
    "utc": ("{0}", ["create table {0} (id timestamp default timezone('utc', now()), item text, n int)"]),
    "view": ("{0}_v", [SERIAL, "create view {0}_v as select id, item, n from {0} where item <> ''"]),
    "query": ("select id, item from {0}", [SERIAL]),
    "partitions": ("{0}", [
        "create table {0} (id bigserial, item text, n int default 0) partition by hash (item)",
        "create table {0}_a partition of {0} for values with (modulus 2, remainder 0)",
        "create table {0}_b partition of {0} for values with (modulus 2, remainder 1)",
    ]),
    "heirs": ("{0}", [SERIAL, "create table {0}_h () inherits ({0})"]),
    "unlogged": ("{0}", [SERIAL.replace("create table", "create unlogged table")]),
    "statement": ("{0}", ["create table {0} (id timestamptz default statement_timestamp(), item text, n int)"]),
    "memory": ("{0}", ["create table {0} (id bigint primary key, item text, n int)"]),
    "taken first": ("{0}", ["create sequence {0}_s", "create table {0} (id int primary key, item text, n int)"]),
}  # fmt: skip


class History:
    """One history. `items` are the rows that were committed, and `read` those that the spout emitted."""

    def __init__(self, server: PostgresServer, table: str, chance: random.Random, faults: float) -> None:
        self._server, self._table, self._chance, self._faults = server, table, chance, faults
        self.relation = chance.choice(sorted(RELATIONS))
        self._source, statements = RELATIONS[self.relation]
        self._statements = [statement.format(table) for statement in statements]
        self._options: dict[str, Any] = {"kind": chance.choice(["transactional", "opaque"])}
        self._options["maxRowsPerBatch"] = chance.choice([1, 3, 1000])
        self.items: set[str] = set()
        self.read: Counter[str] = Counter()
        self.done: list[str] = []
        self._made, self._refilled, self._copied = 0, False, False
        self._rewritten = self._touched = False
        self._position: Any = None
        self._prepared: dict[str, set[str]] = {}
        self._messages: list[tuple[Any, list[str]]] = []
        self._numbers = itertools.count(1)
        self._open()

    def _open(self) -> None:
        self._server.run(*self._statements)
        self._sessions = [_Session(self._server) for _ in range(SESSIONS)]
        self._executor = self._spout().open()

    def _spout(self) -> JdbcSpout:
        options = {"orderBy": "id", "schema": "item string", **self._options}
        source = self._source.format(self._table)
        return JdbcSpout(self._server.url, **options, **{"query" if " " in source else "table": source})

    # --- steps -------------------------------------------------------------------------------------------------

    def run(self, steps: int) -> str:
        """Run a number of steps, then end all transactions and read the rest; return how it ended."""
        try:
            for _ in range(steps):
                self._step(self._chance.choices(*zip(*self._choices(), strict=True))[0])
            if self._chance.random() < self._faults:
                self._disaster()
            self._end()
        except DataLossError as error:
            if self._refilled:
                return "refused"
            assert self._documented(str(error)), f"false alarm: {error}"
            return "false alarm"
        finally:
            self.close()
        lost, more = self.items - set(self.read), {item: n for item, n in self.read.items() if n > 1}
        assert not lost and not more, f"lost {sorted(lost)}, twice {more}"
        return "exact"

    def _documented(self, error: str) -> bool:
        """Return whether the guide says that this looks like a table that was filled again."""
        new_files = self._rewritten and "it has new files" in error  # and the last rows were all changed before
        given = (
            self.relation in ("taken first", "memory") and "rows were deleted" in error
        )  # no sequence tells what comes
        return self._touched and (new_files or given)

    def _choices(self) -> list[tuple[Callable[[], None], float]]:
        return [
            (self._insert, 8),
            (self._commit, 5),
            (self._roll_back, 1),
            (self._commit_and_chain, 1.5),
            (self._message, 2),
            (self._set_sequence, 0.7),
            (self._savepoint, 1),
            (self._prepare, 1),
            (self._finish_prepared, 1),
            (self._gap, 1),
            (self._update, 1),
            (self._delete, 0.7),
            (self._vacuum, 0.5),
            (self._read, 8),
            (self._plan_in_vain, 1),
            (self._restart_spout, 1),
            (self._copy, self._faults * 0.5),
            (self._crash, self._faults * 0.3),
        ]

    def _step(self, step: Callable[[], None]) -> None:
        self.done.append(step.__name__)
        step()

    @property
    def _any(self) -> "_Session":
        return self._chance.choice(self._sessions)

    def _insert(self) -> None:
        session = self._any
        for _ in range(self._chance.randint(1, 3)):
            session.insert(self._row_into(session), self._item())

    def _row_into(self, session: "_Session | None" = None) -> str:
        """Return the statement. Programs choose a number in memory, as soon as their transaction has begun."""
        if self.relation == "memory":
            number = next(self._numbers) if session is None else session.chosen(self._numbers)
            return f"insert into {self._table} (id, item) values ({number}, %s)"
        if self.relation == "taken first":
            return f"insert into {self._table} (id, item) values (nextval('{self._table}_s'), %s)"
        table = self._table + ("_h" if self.relation == "heirs" and self._chance.random() < 0.5 else "")
        return f"insert into {table} (item) values (%s)"

    def _item(self) -> str:
        self._made += 1
        return f"i{self._made}"

    def _commit(self) -> None:
        self.items |= self._any.commit()

    def _roll_back(self) -> None:
        self._any.roll_back()

    def _savepoint(self) -> None:
        session = self._any
        session.savepoint(self._row_into(session), self._item(), self._chance.random() < 0.5)

    def _commit_and_chain(self) -> None:
        self.items |= self._any.commit_and_chain()

    def _message(self) -> None:
        """Send several transactions in one message, or take the answer to such a message."""
        if len(self._messages) == 2:
            self._end_message()
        if self.relation == "memory":  # its numbers would be chosen before it comes
            return
        items = [self._item() for _ in range(self._chance.randint(2, 4))]
        sleep = f"select pg_sleep({self._chance.choice([0, 0.01, 0.05])})"
        each = [f"begin; {sleep}; {self._row_into().replace('%s', repr(item))}; {sleep}; commit" for item in items]
        connection = self._server.connect()
        connection.pgconn.send_query("; ".join(each).encode())
        self._messages.append((connection, items))

    def _end_message(self) -> None:
        connection, items = self._messages.pop(0)
        while (result := connection.pgconn.get_result()) is not None:
            assert not result.error_message, result.error_message
        connection.close()
        self.items |= set(items)

    def _set_sequence(self) -> None:
        """Repair a sequence, in the ways that lose nothing."""
        name = f"{self._table}_s" if self.relation in ("nextval", "taken first") else f"{self._table}_id_seq"
        next_ = f"(select last_value + is_called::int from {name})"
        with self._server.connect() as connection:
            if connection.execute("select to_regclass(%s)", (name,)).fetchone() == (None,):
                return
            sets = [f"setval('{name}', {next_} + 3)", f"setval('{name}', {next_}, false)"]
            connection.execute(f"select {self._chance.choice(sets)}".encode())

    def _prepare(self) -> None:
        session = self._any
        if len(self._prepared) < 4 and session.items:
            gid = f"{self._table}_{len(self.done)}"
            self._prepared[gid] = session.prepare(gid)

    def _finish_prepared(self) -> None:
        if self._prepared:
            gid = self._chance.choice(sorted(self._prepared))
            items, keep = self._prepared.pop(gid), self._chance.random() < 0.7
            self._server.run(f"{'commit' if keep else 'rollback'} prepared '{gid}'")
            self.items |= items if keep else set()

    def _gap(self) -> None:
        self._server.run(f"begin; {self._row_into().replace('%s', repr('gap'))}; rollback")

    def _update(self) -> None:
        self._change("update {} set n = 1 where item = any(%s)")

    def _delete(self) -> None:
        self._change("delete from {} where item = any(%s)")

    def _change(self, statement: str) -> None:
        """Change some rows that were read, as a program that cleans up does."""
        read = sorted(self.read)
        chosen = read if self._chance.random() < 0.2 else [item for item in read if self._chance.random() < 0.3]
        self._touched = True
        with self._server.connect() as connection:
            connection.execute(statement.format(self._table).encode(), (chosen,))

    def _vacuum(self) -> None:
        if any(session.open for session in self._sessions) or self._prepared or self.relation == "partitions":
            return  # it would wait for them
        self._rewritten = True
        self._server.run(f"vacuum full {self._table}")

    def _read(self, most: int = 3) -> bool:
        for _ in range(most):
            plan = planned(self._executor, self._position)
            if plan is None:
                return False
            try:
                rows = emitted(self._executor, plan).arrow()
            except SourceUnreadableError:
                return True  # an opaque batch is planned anew
            self.read.update(rows.column(0).to_pylist())
            self._position = plan
        return True

    def _plan_in_vain(self) -> None:
        plan = planned(self._executor, self._position)
        if plan is not None:
            emitted(self._executor, plan).arrow()
            planned(self._executor, plan)

    def _restart_spout(self) -> None:
        self._executor.close()
        self._options["maxRowsPerBatch"] = self._chance.choice([1, 3, 1000])
        self._executor = self._spout().open()

    def _crash(self) -> None:
        if self.relation == "unlogged":
            return
        for session in self._sessions:
            session.items.clear()
        while self._messages:
            self._end_message()
        self._server.restart()
        self._sessions = [_Session(self._server) for _ in range(SESSIONS)]

    def _copy(self) -> None:
        if not self._prepared:
            self._server.copy()
            self._copied = True

    # --- the end -----------------------------------------------------------------------------------------------

    def _disaster(self) -> None:
        """Empty the table, or put the server back to a copy, and fill it again."""
        for session in self._sessions:
            session.roll_back()
        while self._messages:
            self._end_message()
        while self._prepared:
            self._finish_prepared()
        kinds = ["truncate", "restart identity", "drop"] + (["restore"] * 3 if self._copied else [])
        kind = self._chance.choice(kinds)
        self.done.append(kind)
        self._refilled = True
        if kind == "restore":
            self._server.restore(timeline=self._chance.random() < 0.3)
            self._sessions = [_Session(self._server) for _ in range(SESSIONS)]
        elif kind == "drop":
            self._server.run(*self._dropped, *self._statements)
        else:
            self._server.run(f"truncate {self._table}{' restart identity' if kind != 'truncate' else ''}")
            if kind != "truncate" and self.relation in ("nextval", "taken first"):
                self._server.run(f"alter sequence {self._table}_s restart")
        with self._server.connect() as connection:
            rows = connection.execute(f"select item from {self._table}".encode()).fetchall()
        self.items = {item for (item,) in rows}
        for _ in range(self._chance.choice([0, 1, 3, 6, 12, 25])):
            self._sessions[0].insert(self._row_into(self._sessions[0]), self._item())
            if self._chance.random() < 0.7:
                self.items |= self._sessions[0].commit()
        if self._chance.random() < 0.5:
            self._restart_spout()

    @property
    def _dropped(self) -> list[str]:
        return [f"drop table if exists {self._table} cascade", f"drop sequence if exists {self._table}_s"]

    def _end(self) -> None:
        for session in self._sessions:
            self.items |= session.commit()
        while self._messages:
            self._end_message()
        while self._prepared:
            self._finish_prepared()
        until = time.monotonic() + PATIENCE_SECS
        while not self._all_read(until):
            time.sleep(0.02)
        self._read(1000)

    def _all_read(self, until: float) -> bool:
        while self._read(1000):
            pass
        return self.items <= set(self.read) or time.monotonic() > until or not self._may_come()

    def _may_come(self) -> bool:
        """Return whether a row that is missing may still become final: when its time is past, or a session is gone."""
        return not (self._refilled and self._passed())

    def _passed(self) -> bool:
        self._slept = getattr(self, "_slept", 0) + 1
        return self._slept > 50

    def close(self) -> None:
        """Drop the table, and close what is open."""
        self._executor.close()
        for connection, _ in self._messages:
            connection.close()
        for session in self._sessions:
            session.close()
        with self._server.connect() as connection:
            for (gid,) in connection.execute("select gid from pg_prepared_xacts").fetchall():
                connection.execute(f"rollback prepared '{gid}'".encode())
        self._server.run(*self._dropped)


class _Session:
    """A connection, with the items that its transaction has inserted."""

    def __init__(self, server: PostgresServer) -> None:
        self._connection = server.connect()
        self.items: set[str] = set()
        self._numbers: list[int] = []

    @property
    def open(self) -> bool:
        return self._connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE

    def _begin(self) -> None:
        if not self.open:
            self._connection.execute("begin")
            self._numbers.clear()

    def chosen(self, numbers: Iterator[int]) -> int:
        """Return a number that the program chose when the transaction had begun."""
        self._begin()
        if not self._numbers:
            self._numbers = [next(numbers) for _ in range(3)]
        return self._numbers.pop(0)

    def insert(self, statement: str, item: str) -> None:
        self._begin()
        self._connection.execute(statement.encode(), (item,))
        self.items.add(item)

    def savepoint(self, statement: str, item: str, keep: bool) -> None:
        self._begin()
        self._connection.execute("savepoint here")
        self._connection.execute(statement.encode(), (item,))
        if keep:
            self.items.add(item)
        else:
            self._connection.execute("rollback to savepoint here")

    def _end(self, statement: str) -> set[str]:
        items, self.items = self.items, set()
        self._numbers.clear()
        if self.open:
            self._connection.execute(statement.encode())
        return items

    def commit_and_chain(self) -> set[str]:
        return self._end("commit and chain")

    def commit(self) -> set[str]:
        return self._end("commit")

    def roll_back(self) -> None:
        self._end("rollback")

    def prepare(self, gid: str) -> set[str]:
        return self._end(f"prepare transaction '{gid}'")

    def close(self) -> None:
        self._connection.close()
