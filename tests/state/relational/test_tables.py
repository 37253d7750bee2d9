"""What is special about states in SQL: the view, the lease, lost replies, lost files and servers, a whole topology."""

import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

from tests.state.backing.maps import Meddled
from tests.support.postgres import PostgresServer
from trident import Count, TridentTopology, openState
from trident.access.removal import dropState
from trident.base.errors import (
    BatchFailedError,
    FencedError,
    MissingPackageError,
    StateBehindError,
    StateError,
    StateOwnedError,
    StateUnavailableError,
)
from trident.log.sqlite_log import SqliteLog
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.state import PostgresMapState, SqliteMapState
from trident.testing.contracts.stores import FIRST, SECOND, FactoryStorage, Setting
from trident.testing.contracts.stores.fixtures import LAST
from trident.testing.local import start_local
from trident_state.relational.postgres_table import PostgresTable
from trident_state.relational.sqlite_table import SqliteTable
from trident_state.state_shape import StateKind
from trident_state.store_messages import Update

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
    with pytest.raises(StateOwnedError, match="already has 'wordcount_a_b'.*Nothing was changed"):
        other.create(FIRST, 0)
    assert other.report().identity is None
    other.close()


@pytest.mark.parametrize("key", ["Value", "VALUE", "value"])
def test_a_query_for_the_value_never_returns_a_key_that_sqlite_takes_for_it(key: str, tmp_path: Path) -> None:
    """SQLite ignores case in names of columns: of two columns `Value` and `value` it returns the first for both."""
    topology, path = TridentTopology(), tmp_path / "states.db"
    words = topology.newStream("words", FixedBatchSpout(f"{key} string", [["dog", "dog", "cat"]]))
    words.groupBy(key).persistentAggregate(SqliteMapState.opaque(path), Count(), "count", name="counts")
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("SELECT value, _value FROM wc_counts ORDER BY value").fetchall() == [("cat", 1), ("dog", 2)]
    with openState("wc", "counts", factory=SqliteMapState.opaque(path)) as counts:
        assert list(counts.toPandas().columns) == [key, "_value"]


def test_a_view_with_a_name_that_sqlite_keeps_for_itself_is_refused(tmp_path: Path) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["dog"]]))
    store = SqliteMapState.opaque(str(tmp_path / "states.db"))
    words.groupBy("word").persistentAggregate(store, Count(), "count", name="counts")
    with pytest.raises(StateOwnedError, match="SQLite reserves names .*; rename the topology"):
        start_local(topology, name="sqlite", checkpointLocation=tmp_path)


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


def meddled(store: Any, before: Callable[[int], None]) -> None:
    """Let `before` happen between the reads and the put of the store's table."""
    assert isinstance(store._calls._made_map(), SqliteTable | PostgresTable)
    store._calls._map = Meddled(store._calls._map, before)


def test_a_driver_that_is_taken_over_between_its_read_and_its_put_writes_nothing(
    placed: tuple[Any, Query], tmp_path: Path
) -> None:
    setting = setting_of(placed[0], tmp_path)
    former, later = setting.started(), setting.open()
    setting.apply(former, 1, {1: 1})

    def taken_over(_: int) -> None:
        later.acquire(SECOND)
        setting.apply(later, 2, {1: 10}, lease=SECOND)

    meddled(former, taken_over)
    with pytest.raises(FencedError, match="belongs to the driver of epoch 2, but this driver has epoch 1"):
        setting.apply(former, 2, {1: 100, 2: 100})
    assert placed[1]("SELECT word, value FROM wordcount_counts") == [("w1", 11)]
    setting.apply(later, 3, {1: 1}, lease=SECOND)
    assert setting.read(later, [1, 2], 3) == [12, None]
    for store in (former, later):
        store.close()


def test_a_driver_that_comes_while_another_one_puts_waits_and_looks_again(
    placed: tuple[Any, Query], tmp_path: Path
) -> None:
    """It comes after the comparison and before the write: whoever is second must see what the first one wrote."""
    setting = setting_of(placed[0], tmp_path)
    former, later = setting.started(), setting.open()
    table: Any = former._calls._map  # type: ignore[attr-defined]
    put, outcomes, has_read = table._put, [], threading.Event()
    meddled(later, lambda _: has_read.set())

    def acquire() -> None:
        try:
            later.acquire(SECOND)
            outcomes.append("acquired")
        except StateUnavailableError as error:
            outcomes.append(str(error))

    acquiring = threading.Thread(target=acquire)

    def late(*args: Any) -> None:
        acquiring.start()
        assert has_read.wait(20)
        acquiring.join(0.5)
        put(*args)

    table._put = late
    setting.apply(former, 1, {1: 1})
    acquiring.join(20)
    assert outcomes == [
        "state 'counts': another program changed the state's meta entry at the same time; the call is repeated"
    ]
    later.acquire(SECOND)
    setting.apply(later, 2, {1: 1}, lease=SECOND)
    assert setting.read(later, [1], 2) == [2]
    for store in (former, later):
        store.close()


@pytest.mark.parametrize("value", ["a\0b", "\0", "a\\u0000", "\\\0\\\\\0", 'quo"te\\'])
def test_text_with_a_zero_byte_is_kept_and_a_view_shows_a_sign_for_it(
    placed: tuple[Any, Query], tmp_path: Path, value: str
) -> None:
    """No text of PostgreSQL holds a zero byte; a view over one must not fail for all other rows."""
    setting = replace(setting_of(placed[0], tmp_path), value=pa.string(), combine=LAST)
    store = setting.started()
    keys = pa.table({"word": [value, "w1"]})
    store.apply(FIRST, Update(1, keys, pa.array([value, "plain"])))
    assert store.read(keys, 1).values.to_pylist() == [value, "plain"]
    (page,) = store.scan(1)
    assert sorted(page["word"].to_pylist()) == sorted([value, "w1"])
    shown = value.replace("\0", "\ufffd")
    assert sorted(placed[1]("SELECT word, value FROM wordcount_counts")) == sorted([(shown, shown), ("w1", "plain")])
    store.close()


WRITER = """
import sys
import pyarrow as pa
from trident.base.attempt import Lease
from trident_state.store_messages import Update
from trident_state.relational import SqliteMapState
from trident_state.state_shape import Combine, StateIdentity, StateShape
shape = StateShape(pa.schema({"word": pa.string()}), pa.int64(), Combine("Count", lambda stored, delta: stored + delta))
store = SqliteMapState.opaque(sys.argv[1]).open(StateIdentity("wordcount", "counts", "log-1"), shape, None)
lease = Lease(1, "driver")
store.create(lease, 0)
store.acquire(lease)
for txid in range(1, 100_000):
    store.apply(lease, Update(txid, pa.table({"word": ["w1", "w2"]}), pa.array([1, 1])))
    print(txid, flush=True)
"""


def test_another_process_reads_whole_batches_while_a_driver_writes_the_same_file(folder: Path) -> None:
    path = str(folder / "states.db")
    state = SqliteMapState.opaque(path)
    with subprocess.Popen([sys.executable, "-c", WRITER, path], stdout=subprocess.PIPE) as driver:
        assert driver.stdout is not None
        try:
            assert driver.stdout.readline() == b"1\n"
            read = []
            with openState("wordcount", "counts", factory=state) as counts:
                while len(set(read)) < 10:
                    values = counts.multiGet(["w1", "w2"])
                    assert values[0] == values[1], "half a batch"
                    read.append(values[0])
                    confirmed = int(driver.stdout.readline())
                assert dict(counts.items()).keys() == {"w1", "w2"}
            assert read == sorted(read)
            assert driver.poll() is None, "the reader has not disturbed the driver"
        finally:
            driver.kill()
    with openState("wordcount", "counts", factory=state) as counts:
        assert counts["w1"] >= confirmed, "confirmed before the driver was killed"


def test_a_state_comes_to_a_file_that_another_program_is_writing(folder: Path, tmp_path: Path) -> None:
    """The first state turns the file to WAL, for which SQLite does not wait. Two topologies may do it at once."""
    path = folder / "states.db"
    with closing(sqlite3.connect(path, isolation_level=None, check_same_thread=False)) as other:
        other.execute("CREATE TABLE mine (id INTEGER)")
        other.execute("BEGIN IMMEDIATE")
        ends = threading.Timer(0.3, other.execute, ("COMMIT",))
        ends.start()
        store = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path).started()
        store.close()
        ends.join()
        assert other.execute("SELECT * FROM wordcount_counts").fetchall() == []
        assert other.execute("PRAGMA journal_mode").fetchall() == [("wal",)]


def test_a_sqlite_file_that_is_removed_within_a_batch_is_told(folder: Path, tmp_path: Path) -> None:
    path = folder / "states.db"
    setting = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path)
    store: Any = setting.started()
    table = store._calls._map
    put = table._put

    def removed(*args: Any) -> None:
        put(*args)
        path.unlink()

    table._put = removed
    with pytest.raises(StateUnavailableError, match=r"states\.db was removed or replaced during a write"):
        setting.apply(store, 1, {1: 1})
    store.close()


ASK = """
import sqlite3, sys
db = sqlite3.connect(sys.argv[1])
print([*db.execute("PRAGMA integrity_check"), *db.execute("SELECT * FROM wordcount_counts")])
db.close()
"""


def asked_elsewhere(path: Path) -> str:
    """Return the rows of the state that another process sees. It removes the WAL file if no other process has locks."""
    return subprocess.run([sys.executable, "-c", ASK, str(path)], capture_output=True, text=True, check=True).stdout


def test_a_sqlite_file_that_this_process_copies_keeps_its_batches(folder: Path, tmp_path: Path) -> None:
    """Closing the copy's source drops the locks of this process (POSIX), and the next reader removes the WAL file."""
    path = folder / "states.db"
    setting = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path)
    counts, others = setting.started(), setting.named("others").started()
    setting.apply(counts, 1, {1: 1})
    setting.apply(others, 1, {1: 1})
    for txid in (2, 3):
        shutil.copy(path, folder / "copy.db")
        asked_elsewhere(path)
        assert not (folder / "states.db-wal").exists()
        setting.apply(counts, txid, {1: 1})
        assert asked_elsewhere(path) == f"[('ok',), ('w1', {txid})]\n"
    setting.apply(others, 2, {1: 1})
    assert setting.read(others, [1], None) == [2]
    counts.close()
    others.close()
    assert asked_elsewhere(path) == "[('ok',), ('w1', 3)]\n"


def test_a_sqlite_file_that_this_process_copies_within_a_batch_is_told(folder: Path, tmp_path: Path) -> None:
    path = folder / "states.db"
    setting = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path)
    store: Any = setting.started()
    table = store._calls._map
    put = table._put

    def copied(*args: Any) -> None:
        put(*args)
        shutil.copy(path, folder / "copy.db")
        asked_elsewhere(path)

    table._put = copied
    with pytest.raises(StateUnavailableError, match=r"states\.db was removed or replaced during a write"):
        setting.apply(store, 1, {1: 1})
    table._put = put
    setting.apply(store, 1, {1: 1})
    assert asked_elsewhere(path) == "[('ok',), ('w1', 1)]\n"
    store.close()


def test_without_psycopg_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    store = setting_of(lambda kind: PostgresMapState(kind, "postgresql://me@localhost/db"), tmp_path).open()
    with pytest.raises(MissingPackageError, match=r"needs the package psycopg.*trident-pyspark\[postgres\]"):
        store.report()


def test_a_sqlite_file_that_is_removed_is_told(folder: Path, tmp_path: Path) -> None:
    path = folder / "states.db"
    setting = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    path.unlink()
    with pytest.raises(StateBehindError, match=r"its map does not contain this state \(any longer\)"):
        setting.apply(store, 2, {1: 1})
    assert not path.exists()
    store.close()


def test_a_file_that_is_no_database_is_refused(folder: Path, tmp_path: Path) -> None:
    path = folder / "notes.txt"
    path.write_text("dear diary, " * 1000)
    store = setting_of(lambda kind: SqliteMapState(kind, str(path)), tmp_path).open()
    with pytest.raises(StateOwnedError, match=r"notes\.txt is not a SQLite database"):
        store.report()
    assert path.read_text().startswith("dear diary")


def test_wrong_places_are_refused_at_once() -> None:
    for path in ("", ":memory:", "s3://bucket/states.db"):
        with pytest.raises(ValueError, match="expected the path of a file on a local disk"):
            SqliteMapState.opaque(path)
    with pytest.raises(ValueError, match="expected postgresql://user@host:5432/database"):
        PostgresMapState.opaque("mysql://me:secret@host/db")
    for url in ("host=h password=secret", "me:secret@host/db", b"postgresql://me:secret@host"):
        with pytest.raises((ValueError, TypeError), match="expected") as refused:
            PostgresMapState.opaque(url)  # type: ignore[arg-type]
        assert "secret" not in str(refused.value)
    assert "secret" not in repr(PostgresMapState.transactional("postgresql://me:secret@host/db?sslpassword=secret"))


def test_a_server_that_is_killed_in_mid_commit_counts_each_batch_once(
    shared_postgres: PostgresServer, database: str, tmp_path: Path
) -> None:
    """The lease's row is locked by another session, so that the batch is in the middle when the server is killed."""
    server = shared_postgres
    server.run(f"alter database {database.rpartition('/')[2]} set synchronous_commit = off")
    setting = setting_of(lambda kind: PostgresMapState(kind, database), tmp_path)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    failed: list[Exception] = []

    def commit() -> None:
        try:
            setting.apply(store, 2, {1: 1})
        except StateUnavailableError as error:
            failed.append(error)

    committing = threading.Thread(target=commit)
    holder = psycopg.connect(database)
    try:
        holder.execute('select 1 from "wordcount/counts" for update')
        committing.start()
        with server.connect() as watch:
            while not watch.execute("select 1 from pg_locks where not granted").fetchone():
                time.sleep(0.01)
    finally:
        server.restart()
    committing.join(20)
    assert [type(error) for error in failed] == [StateUnavailableError]
    setting.apply(store, 2, {1: 1})
    setting.apply(store, 2, {1: 1})
    server.restart()
    assert setting.read(store, [1], 2) == [2], "confirmed, although the database's synchronous_commit is off"
    store.close()


def test_a_commit_that_an_administrator_cancels_is_repeated(database: str, tmp_path: Path) -> None:
    setting = setting_of(lambda kind: PostgresMapState(kind, database), tmp_path)
    store = setting.started()
    setting.apply(store, 1, {1: 1})
    waiting = "select pg_cancel_backend(pid) from pg_stat_activity where wait_event_type = 'Lock'"

    def cancel() -> None:
        with psycopg.connect(database, autocommit=True) as administrator:
            while not administrator.execute(waiting).fetchone():
                time.sleep(0.01)

    cancelling = threading.Thread(target=cancel)
    with psycopg.connect(database) as holder:
        holder.execute('select 1 from "wordcount/counts" for update')
        cancelling.start()
        with pytest.raises(StateUnavailableError, match="may have succeeded; a run repeats it"):
            setting.apply(store, 2, {1: 1})
        cancelling.join(20)
    setting.apply(store, 2, {1: 1})
    assert setting.read(store, [1], 2) == [2]
    store.close()


@pytest.mark.soak  # a server of its own; the tests around it have one that warns
def test_a_server_that_is_durable_causes_no_warning(tmp_path: Path) -> None:
    with PostgresServer("fsync=on") as server:
        store: Any = setting_of(lambda kind: PostgresMapState(kind, server.url), tmp_path).started()
        assert store.warnings == ()
        store.close()


def test_a_server_without_fsync_is_told(database: str, tmp_path: Path) -> None:
    store: Any = setting_of(lambda kind: PostgresMapState(kind, database), tmp_path).started()
    assert [text for text in store.warnings if "fsync is off at postgresql://postgres:***@" in text]
    store.close()


def test_the_settings_of_a_user_change_nothing(database: str, tmp_path: Path) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("create role quaint superuser login password 'x'")
        connection.execute("alter role quaint set standard_conforming_strings = off")
        connection.execute("alter role quaint set quote_all_identifiers = on")
    url = f"postgresql://quaint:x@{database.partition('@')[2]}"
    store: Any = setting_of(lambda kind: PostgresMapState(kind, url), tmp_path).started()
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


def test_a_view_that_builds_on_a_state_keeps_it_from_being_dropped_and_nothing_is_touched(
    database: str, tmp_path: Path
) -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", FixedBatchSpout("k string, v string", [[("a", "1"), ("b", "2")]]))
    first, second = (PostgresMapState.opaque(database) for _ in range(2))
    rows.toTable("k", first, name="first")
    rows.toTable("v", second, name="second")
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    with psycopg.connect(database) as connection:
        connection.execute("create view report as select count(*) from wc_second")
    says = "view report depends on view wc_second.*; the state was not changed"
    with pytest.raises(StateError, match=f"First drop the objects that depend on the table .*wc_second.*{says}"):
        dropState("wc", "second", tmp_path, factory=second)
    with pytest.raises(StateError, match=says):
        topology.reset("wc", tmp_path)
    with psycopg.connect(database) as connection:
        for table in ("wc/first", "wc/second"):
            assert connection.execute(f'select count(*) from "{table}"'.encode()).fetchone() == (3,)
        connection.execute("drop view report")
    with start_local(topology, name="wc", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=30)
    dropState("wc", "second", tmp_path, factory=second)
    topology.reset("wc", tmp_path)
    with psycopg.connect(database) as connection:
        assert connection.execute("select count(*) from pg_tables where tablename like 'wc/%'").fetchone() == (0,)


def test_a_key_that_the_index_cannot_hold_is_refused_before_its_batch_is_frozen(database: str, tmp_path: Path) -> None:
    """Once it is frozen, no program could commit it any more. A long key that can be compressed is no trouble."""
    noise = "".join(chr(97 + at * at * 7919 % 26) + f"{at * at % 9973:x}" for at in range(4_000))
    feeder, topology = FeederBatchSpout("k string"), TridentTopology()
    keys = topology.newStream("keys", feeder).groupBy("k")
    keys.persistentAggregate(PostgresMapState.opaque(database), Count(), "count", name="counts")
    running = start_local(topology, name="wc", checkpointLocation=tmp_path, maxAttempts=1)
    feeder.feed([("a",), ("b" * 50_000,)], wait=True, timeout=20)
    feeder.feed([(noise,)])
    with pytest.raises(BatchFailedError, match=r"a key of \d+ bytes is too long for the database .*was not frozen"):
        running.processAllAvailable(timeout=20)
    running.stop()
    assert SqliteLog(tmp_path / "wc" / "log.sqlite", "wc", reading=True).history("keys").frozen == ()
