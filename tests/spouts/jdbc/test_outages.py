"""Servers that are away, stop, start again or hang up: waited for, or an error that says so. A standby is refused."""

import subprocess
import sys
import threading

import pytest

from tests.spouts.jdbc.reads import column, drained, emitted, planned
from tests.support.postgres import PostgresServer
from trident.errors import SourceUnreadableError
from trident.spouts import JdbcSpout


def filled(postgres: PostgresServer, table: str) -> str:
    postgres.run(
        f"create table {table} (id int primary key, text text)",
        f"insert into {table} select n, repeat('x', 1000) from generate_series(1, 20000) n",
    )
    return table


def test_a_server_that_is_restarted_is_waited_for(mortal: PostgresServer, table: str) -> None:
    executor = JdbcSpout(mortal.url, filled(mortal, table), orderBy="id", maxRowsPerBatch=10_000).open()
    plan = planned(executor)
    emission = emitted(executor, plan)
    mortal.kill()
    later = threading.Timer(0.3, mortal.start)
    later.start()
    assert len(column(emission.arrow())) == 10_000
    later.join()
    mortal.restart()  # the executor's own connection is broken now, too
    assert len(drained(executor, plan)[0]) == 10_000
    executor.close()


def test_connections_that_are_cut_in_the_middle_are_repeated(mortal: PostgresServer, table: str) -> None:
    """Half a page is never taken for a page."""
    executor = JdbcSpout(mortal.url, filled(mortal, table), orderBy="id").open()
    emission = emitted(executor, planned(executor))
    stop = threading.Event()
    cut = [0]

    def cut_readers() -> None:
        query = "select pg_terminate_backend(pid) from pg_stat_activity where query like 'copy %' and state = 'active'"
        with mortal.connect() as connection:
            while not stop.is_set() and cut[0] < 3:
                cut[0] += len(connection.execute(query.encode()).fetchall())

    cutter = threading.Thread(target=cut_readers)
    cutter.start()
    for _ in range(10):
        assert sorted(column(emission.arrow())) == list(range(1, 20_001))
    stop.set()
    cutter.join()
    assert cut[0], "no reader was cut"
    executor.close()


_THROUGH_A_PROXY = """
import sys
from tests.spouts.jdbc.reads import drained
from tests.support.proxy import Proxy
from trident.spouts import JdbcSpout

port, url, table = sys.argv[1:]
with Proxy(int(port)) as proxy:
    executor = JdbcSpout(url.replace(f":{port}/", f":{proxy.port}/"), table, orderBy="id").open()
    print(drained(executor)[0])
    executor.close()
"""


def test_a_reply_that_is_late_does_not_stop_other_threads(postgres: PostgresServer, table: str) -> None:
    """The proxy is a thread of the same process, so no reply comes unless threads run while the spout waits for it."""
    postgres.run(f"create table {table} (id int primary key)", f"insert into {table} values (1), (2)")
    command = [sys.executable, "-c", _THROUGH_A_PROXY, str(postgres.port), postgres.url, table]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.stdout.strip() == "[1, 2]", ended.stderr


def test_a_server_that_stays_away_is_told_after_retry_secs(mortal: PostgresServer, table: str) -> None:
    executor = JdbcSpout(mortal.url, filled(mortal, table), orderBy="id", retrySecs=0.3).open()
    plan = planned(executor)
    mortal.kill()
    for read in (lambda: planned(executor, plan), lambda: emitted(executor, plan).arrow()):
        with pytest.raises(SourceUnreadableError, match=r"cannot be read, after 0\.3 s of trying .*retrySecs="):
            read()
    executor.close()


def test_a_standby_is_refused(mortal: PostgresServer, table: str) -> None:
    mortal.run(f"create table {table} (id int)", "checkpoint")
    executor = JdbcSpout(mortal.url, table, orderBy="id").open()
    message = "is a standby, which does not know the open transactions;"
    with mortal.as_standby(), pytest.raises(SourceUnreadableError, match=message):
        planned(executor)
    assert planned(executor) is None
    executor.close()
