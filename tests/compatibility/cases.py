"""The cases of stored bytes: a program, the point at which its driver is killed, and the contents that are compared."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.compatibility import messages, savepoints, sent, submits
from tests.compatibility.programs import Places, files, kinds, outputs, stored, timers, windows, write_files, written
from trident import TridentTopology
from trident.run.running import RunningTopology
from trident.state import DeltaMapState, MemoryMapState, PostgresMapState, RedisMapState, SqliteMapState


@dataclass(frozen=True)
class Case:
    """A program; the point at which its driver is killed; the states that are compared.

    `redis`, `postgres` and `kafka` say which servers it needs; with `disk` it has a Kafka of its own, whose disk is
    stored too; with `redisLog` the log is in Redis. `prepare` writes
    the input of so many parts. `during` is called when the run has processed its input. `drive` runs the program if it
    is not started by a call. `results` returns more that is compared at the end. `moved` replaces paths of the first
    folder, in the second one, by those of the second.
    """

    topology: Callable[[Places], TridentTopology]
    states: tuple[str, ...]
    killed: str
    redis: bool = False
    postgres: bool = False
    kafka: bool = False
    disk: bool = False
    redisLog: bool = False
    prepare: Callable[[Places], None] = lambda places: None
    during: Callable[[RunningTopology, Places], None] = lambda running, places: None
    drive: Callable[[], None] | None = None
    results: Callable[[Places], Any] = lambda places: None
    moved: Callable[[Path | str, Path | str, Path], None] = lambda former, present, folder: None


STORED = ("counts", "several", "sets", "rows")
STORES: dict[str, Callable[[Places], Any]] = {
    "memory": lambda places: MemoryMapState.opaque(),
    "sqlite": lambda places: SqliteMapState.opaque("states.db"),
    "postgres": lambda places: PostgresMapState.opaque(places.postgres),
    "redis": lambda places: RedisMapState.opaque(places.redis, buckets=16, groups=2),
}
CASES = {
    "kinds": Case(kinds, ("counts", "sums", "reached"), "commit.state.after:7"),
    "memory": Case(stored(STORES["memory"]), STORED, "commit.states.after:2"),
    "sqlite": Case(stored(STORES["sqlite"]), STORED, "commit.state.after:6"),
    "postgres": Case(stored(STORES["postgres"]), STORED, "commit.state.after:6", postgres=True),
    "redis": Case(stored(STORES["redis"]), STORED, "commit.state.after:6", redis=True),
    "redis-log": Case(
        stored(lambda places: RedisMapState.transactional(places.redis, buckets=16, values="json")),
        STORED,
        "freeze.after:2",
        redis=True,
        redisLog=True,
    ),
    "delta": Case(stored(lambda places: DeltaMapState.opaque("tables")), STORED, "commit.state.after:6"),
    "windows": Case(
        windows,
        ("fives", "fives.left", "tens", "tens.left", "visits", "visits.left", "seen", "firsts"),
        "commit.state.after:12",
    ),
    "timers": Case(
        timers,
        ("memory", "sqlite", "redis", "memory.fired", "sqlite.fired", "redis.fired"),
        "commit.state.after:8",
        redis=True,
    ),
    "files": Case(files, ("counts",), "freeze.after:2", prepare=write_files),
    "outputs": Case(outputs, ("counts",), "output.published:5", postgres=True, results=written),
    "kafka": Case(messages.topology, ("counts",), "output.published:2", kafka=True, results=messages.written),
    "kafka-spout": Case(sent.topology, ("counts", "lasts"), "commit.state.after:3", disk=True, prepare=sent.send),
    "savepoint": Case(
        savepoints.topology, ("counts", "sets"), "freeze.after:2", during=savepoints.save, results=savepoints.forked
    ),
    "submitted": Case(
        submits.topology,
        ("counts",),
        "commit.state.after:2",
        prepare=submits.submit_once,
        drive=submits.drive_stored,
        results=submits.described,
        moved=submits.moved,
    ),
}
"""Each kind of stored bytes, by name."""
