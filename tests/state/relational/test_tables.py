"""What is special about states in SQL: the view, the lease, lost replies, lost files and servers, a whole topology."""

import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.support.postgres import PostgresServer
from trident import Count, TridentTopology, openState
from trident.access.removal import dropState
from trident.base.errors import (
    FencedError,
    StateBehindError,
    StateError,
    StateOwnedError,
    StateUnavailableError,
)
from trident.spouts import FixedBatchSpout
from trident.state import PostgresMapState, SqliteMapState
from trident.testing.contracts.stores import FIRST, SECOND, FactoryStorage, Setting
from trident.testing.local import start_local
from trident_state.state_shape import StateKind

Query = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture(params=["sqlite", "postgres"])
def placed(request: pytest.FixtureRequest) -> tuple[Any, Query]:
    """Return the class's maker of a state by its kind, and a function that asks the database."""
    if request.param == "sqlite":
        path = request.getfixturevalue("folder") / "states.db"

        def ask(query: str) -> list[tuple[Any, ...]]:
            db = sqlite3.connect(path)
            try:
                return db.execute(query).fetchall()
            finally:
                db.close()

        return (lambda kind: SqliteMapState(kind, str(path))), ask
    url = request.getfixturevalue("database")

    def ask_server(query: str) -> list[tuple[Any, ...]]:
        with psycopg.connect(url) as connection:
            return connection.execute(query.encode()).fetchall()

    return (lambda kind: PostgresMapState(kind, url)), ask_server


def setting_of(factory: Any, folder: Path) -> Setting:
    return Setting(FactoryStorage(factory, folder))


def test_sql_reads_what_is_committed(placed: tuple[Any, Query], tmp_path: Path) -> None:
    factory, ask = placed
    setting = setting_of(factory, tmp_path)
    store = setting.started()
    setting.apply(store, 1, {1: 10, 2: 2**60 + 1})
    setting.apply(store, 2, {1: 5, 3: None})
    query = "SELECT word, value FROM wordcount_counts ORDER BY word"
    assert ask(query) == [("w1", 15), ("w2", 2**60 + 1)], "a null is no value"
    store.drop()
    tables = (
        "SELECT name FROM sqlite_master"
        if "sqlite" in repr(factory(StateKind.OPAQUE)).lower()
        else ("SELECT relname FROM pg_class WHERE relname LIKE 'wordcount%'")
    )
    assert ask(tables) == []
    store.close()


def test_a_view_that_would_be_another_states_is_refused(placed: tuple[Any, Query], tmp_path: Path) -> None:
    setting = setting_of(placed[0], tmp_path)
    setting.named("a.b").started().close()
    other = setting.named("a-b").open()
    with pytest.raises(StateOwnedError, match="has 'wordcount_a_b' already.*Nothing was touched"):
        other.create(FIRST, 0)
    assert other.report().identity is None
    other.close()


def test_a_former_driver_is_refused_and_changes_nothing(placed: tuple[Any, Query], tmp_path: Path) -> None:
    setting = setting_of(placed[0], tmp_path)
    former = setting.started()
    setting.apply(former, 1, {1: 1})
    later = setting.open()
    later.acquire(SECOND)
    with pytest.raises(FencedError, match="belongs to the driver of epoch 2"):
        setting.apply(former, 2, {1: 100})
    setting.apply(later, 2, {1: 1}, lease=SECOND)
    assert setting.read(later, [1], 2) == [2]
    for store in (former, later):
        store.close()


def test_a_topology_goes_on_is_read_from_outside_dropped_and_reset(placed: tuple[Any, Query], tmp_path: Path) -> None:
    state = placed[0](StateKind.OPAQUE)
    batches = [["the", "dog"], ["the", "cat"], ["the"]]

    def topology(rows: Any) -> TridentTopology:
        made = TridentTopology()
        words = made.newStream("words", FixedBatchSpout("word string", rows))
        words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
        words.persistentAggregate(state, Count(), "n", name="total")
        return made

    for upto in (2, 3):
        with start_local(
            topology(batches[:upto]), name="wc", checkpointLocation=tmp_path, requireExactlyOnce=True
        ) as run:
            run.processAllAvailable()
    assert placed[1]("SELECT word, value FROM wc_counts ORDER BY word") == [("cat", 1), ("dog", 1), ("the", 3)]
    assert placed[1]("SELECT value FROM wc_total") == [(5,)]
    with openState("wc", "counts", factory=state) as counts:
        assert (dict(counts.items()), counts.asOfTxid) == ({"the": 3, "dog": 1, "cat": 1}, 3)
    dropState("wc", "total", tmp_path, factory=state)
    topology(batches).reset("wc", tmp_path)
    with pytest.raises(StateError, match="no state 'counts' of topology 'wc'"):
        openState("wc", "counts", factory=state)


def test_a_sqlite_file_that_is_removed_is_told(folder: Path, tmp_path: Path) -> None:
    path = folder / "states.db"
    setting = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    path.unlink()
    with pytest.raises(StateBehindError, match=r"its map holds nothing of it \(any more\)"):
        setting.apply(store, 2, {1: 1})
    assert not path.exists()
    store.close()


def test_a_file_that_is_no_database_is_refused(folder: Path, tmp_path: Path) -> None:
    path = folder / "notes.txt"
    path.write_text("dear diary, " * 1000)
    store = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path).open()
    with pytest.raises(StateOwnedError, match=r"notes\.txt is no SQLite database"):
        store.report()
    assert path.read_text().startswith("dear diary")


def test_wrong_places_are_refused_at_once() -> None:
    for path in ("", ":memory:", "s3://bucket/states.db"):
        with pytest.raises(ValueError, match="expected the path of a file on a local disk"):
            SqliteMapState.opaque(path)
    with pytest.raises(ValueError, match="expected postgresql://user@host:5432/database"):
        PostgresMapState.opaque("mysql://me:secret@host/db")
    assert "secret" not in repr(PostgresMapState.transactional("postgresql://me:secret@host/db?sslpassword=secret"))


def test_a_server_that_is_killed_in_mid_commit_counts_each_batch_once(tmp_path: Path) -> None:
    """The lease's row is locked by another session, so that the batch is in the middle when the server is killed."""
    with PostgresServer("fsync=on", "synchronous_commit=off") as server:
        setting = setting_of(lambda kind: PostgresMapState(kind, server.url), tmp_path)
        store: Any = setting.started()
        setting.apply(store, 1, {1: 1})
        assert store.warnings == ()
        failed: list[Exception] = []

        def commit() -> None:
            try:
                setting.apply(store, 2, {1: 1})
            except StateUnavailableError as error:
                failed.append(error)

        holder = server.connect()
        holder.execute("begin")
        holder.execute('select 1 from "wordcount/counts" for update')
        thread = threading.Thread(target=commit)
        thread.start()
        time.sleep(0.3)
        server.kill()
        thread.join(20)
        assert [type(error) for error in failed] == [StateUnavailableError]
        server.start()
        setting.apply(store, 2, {1: 1})
        setting.apply(store, 2, {1: 1})
        server.restart()
        assert setting.read(store, [1], 2) == [2], "confirmed, although the server's synchronous_commit is off"
        store.close()


def test_a_server_without_fsync_is_told(database: str, tmp_path: Path) -> None:
    store: Any = setting_of(lambda kind: PostgresMapState(kind, database), tmp_path).started()
    assert [text for text in store.warnings if "fsync is off at postgresql://postgres:***@" in text]
    store.close()


def test_a_reply_that_is_lost_after_the_commit_is_resolved_by_the_marker(database: str, tmp_path: Path) -> None:
    setting = setting_of(lambda kind: PostgresMapState(kind, database), tmp_path)
    store: Any = setting.started()
    table = store._calls._map
    written = table._write

    def lost(work: Any) -> Any:
        written(work)
        table._write = written
        raise StateUnavailableError("the reply was lost")

    table._write = lost
    with pytest.raises(StateUnavailableError, match="the reply was lost"):
        setting.apply(store, 1, {1: 7})
    assert setting.apply(store, 1, {1: 7}).written == 0
    assert setting.read(store, [1], 1) == [7]
    store.close()
