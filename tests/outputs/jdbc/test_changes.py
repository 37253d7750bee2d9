"""A table holds the rows of the stream as of each batch, whatever kills the driver or the server."""

import multiprocessing
import os
import signal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.support.changes import FIELDS, History
from tests.support.postgres import PostgresServer
from tests.support.soak import Soak
from trident import TridentTopology
from trident.base import crash_points
from trident.errors import TridentError
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

SCHEMA = "id bigint primary key, g text, v bigint"


def topology(url: str, table: str, batches: list[Any]) -> TridentTopology:
    """Return a topology that writes changes as they come, changes of a state, the latest rows, and all tuples."""
    made = TridentTopology()
    stream = made.newStream("rows", FixedBatchSpout(FIELDS, batches))
    stream.writeJdbc(url, f"{table}_all", name="all")
    stream.writeJdbc(url, f"{table}_seen", key="id", name="seen")
    changes = stream.asChanges("kind")
    changes.writeJdbc(url, table, key="id", name="rows")
    changes.toTable("id", name="table").changes().writeJdbc(url, f"{table}_kept", key="id", name="kept")
    return made


def create(postgres: PostgresServer, table: str) -> None:
    postgres.run(
        f"create table {table} ({SCHEMA}, noted text default 'ours')",
        f"create table {table}_kept ({SCHEMA})",
        f"create table {table}_seen ({SCHEMA}, kind text)",
        f"create table {table}_all (id bigint, g text, v bigint, kind text)",
    )


def rows(postgres: PostgresServer, table: str, columns: str = "id, g, v") -> list[Any]:
    with postgres.connect() as connection:
        return connection.execute(f"select {columns} from {table}".encode()).fetchall()


def check(postgres: PostgresServer, table: str, history: History) -> None:
    tuples = [change for batch in history.batches for change in batch]
    for name in (table, f"{table}_kept"):
        assert {row[0]: row for row in rows(postgres, name)} == history.rows
    assert set(rows(postgres, table, "noted")) <= {("ours",)}
    seen = {row[0]: row for row in rows(postgres, f"{table}_seen", "id, g, v, kind")}
    assert seen == {change[0]: change for change in tuples}
    assert sorted(rows(postgres, f"{table}_all", "id, g, v, kind"), key=repr) == sorted(tuples, key=repr)


def test_tables_hold_the_rows(postgres: PostgresServer, table: str, tmp_path: Path) -> None:
    create(postgres, table)
    history = History(3).grow(15)
    with start_local(
        topology(postgres.url, table, history.batches), name=table, checkpointLocation=tmp_path
    ) as running:
        running.processAllAvailable(timeout=60)
    check(postgres, table, history)


def test_rows_that_exchange_their_keys_stay(postgres: PostgresServer, table: str, tmp_path: Path) -> None:
    """The changes of a state by another key: a row is added to a key before its former row leaves."""
    postgres.run(f"create table {table} (g text primary key, id bigint)")
    batches: list[Any] = [
        [(1, "a", 0, "insert"), (2, "b", 0, "insert")],
        [
            (1, "a", 0, "update_preimage"), (2, "b", 0, "update_preimage"),
            (1, "b", 0, "update_postimage"), (2, "a", 0, "update_postimage"),
        ],
    ]  # fmt: skip
    made = TridentTopology()
    changes = made.newStream("rows", FixedBatchSpout(FIELDS, batches)).asChanges("kind")
    changes.toTable("id").changes().project("g", "id").writeJdbc(postgres.url, table, key="g")
    with start_local(made, name=table, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    assert sorted(rows(postgres, table, "g, id")) == [("a", 2), ("b", 1)]


def live(url: str, table: str, folder: Path, crash_at: str, seed: int) -> None:
    """Live once, as a driver: killed at a point, or at the end, when all is committed."""
    crash_points.arm(crash_at)
    made = topology(url, table, History(seed).grow(6).batches)
    start_local(made, name=table, checkpointLocation=folder, commitRetrySecs=30).processAllAvailable(timeout=60)
    os.kill(os.getpid(), signal.SIGUSR1)


def die(postgres: PostgresServer, table: str, folder: Path, points: list[str], seed: int, kills: bool = False) -> None:
    """Run drivers that are killed at the points, then one to the end, and compare the tables."""
    create(postgres, table)
    forks: Any = multiprocessing.get_context("forkserver")
    for point in (*points, ""):
        child = forks.Process(target=live, args=(postgres.url, table, folder, point, seed))
        child.start()
        if kills:
            child.join(Random(f"{seed} {point}").uniform(0.5, 2))
            postgres.restart()
        child.join(60)
        assert child.exitcode in (-signal.SIGKILL, -signal.SIGUSR1), f"up to {point or 'the end'}"
    check(postgres, table, History(seed).grow(6))


@pytest.mark.parametrize("points", [["output.staged:6", "output.published:5"], ["output.published:1"]])
def test_drivers_that_die_write_each_batch_once(
    postgres: PostgresServer, table: str, tmp_path: Path, points: list[str]
) -> None:
    die(postgres, table, tmp_path, points, 5)


@pytest.mark.soak
def test_drivers_and_servers_that_die_anywhere(mortal: PostgresServer, table: str, tmp_path: Path, soak: Soak) -> None:
    for number, chance in enumerate(soak.draws(12)):
        places = ("output.before", "output.staged", "output.published", "output.after", "committed.before")
        points = [f"{chance.choice(places)}:{chance.randint(1, 8)}" for _ in range(chance.randint(1, 4))]
        die(mortal, f"{table}_{number}", tmp_path / str(number), points, chance.randint(0, 999), chance.random() < 0.5)


def test_a_null_in_a_key_fails_the_batch_before_it_is_frozen(
    postgres: PostgresServer, table: str, tmp_path: Path
) -> None:
    postgres.run(f"create table {table} (id bigint unique, v bigint)")
    made = TridentTopology()
    made.newStream("s", FixedBatchSpout("id long, v long", [[(1, 1), (None, 2)]])).writeJdbc(
        postgres.url, table, key="id"
    )
    with (
        pytest.raises(TridentError, match=r"writeJdbc.*key field 'id' is null"),
        start_local(made, name=table, checkpointLocation=tmp_path) as running,
    ):
        running.processAllAvailable(timeout=60)
    assert rows(postgres, table, "*") == []
