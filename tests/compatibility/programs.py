"""The programs whose checkpoints each later version must open: one for each kind of stored bytes.

A program has three parts of input. A checkpoint is stored in the middle of a batch of the second part; the third comes
when a later version has opened it. All paths are relative to the program's folder, so the folder may be moved.
"""

import datetime
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from trident import (
    CollectSet,
    Count,
    Evolution,
    Max,
    SessionWindow,
    Sum,
    TridentTopology,
    TumblingEventTimeWindow,
    publishedFiles,
)
from trident.spouts import FileSpout, PollingSpout
from trident.state import (
    KeyValueState,
    MemoryMapState,
    RedisMapState,
    SqliteMapState,
)

NAME = "golden"
CHECKPOINT = "checkpoint"
PART = 24
"""The records of a part of the input."""
BATCH = 6
FIRST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True)
class Places:
    """The servers that a program may use, and how many parts of its input have come."""

    parts: int
    redis: str = ""
    postgres: str = ""
    kafka: str = ""


# --- input ----------------------------------------------------------------------------------------------------------


def record(seq: int) -> tuple[str, int]:
    return f"w{seq * seq % 7}", seq


def numbers(places: Places) -> PollingSpout:
    total = PART * places.parts

    def fetch(position: int | None, limit: int) -> tuple[list[tuple[str, int]], int]:
        first = position or 0
        until = min(first + limit, total)
        return [record(seq) for seq in range(first, until)], until

    return PollingSpout("word string, seq long", {"numbers": fetch}, maxRows=BATCH)


def typed(seq: int) -> dict[str, Any]:
    """Return a value of each type that a field may have, some of them null."""
    return {
        "price": Decimal(seq * 37) / 100,
        "day": FIRST.date() + datetime.timedelta(days=seq),
        "at": FIRST + datetime.timedelta(microseconds=seq * 1_234_567),
        "ratio": None if seq % 5 == 0 else seq / 7,
        "sent": seq % 2 == 0,
        "raw": bytes([seq % 256, 0, 255]),
        "tags": [f"t{seq % 3}", None, "ü"],
        "sizes": {"s": seq, "m": -seq},
    }


TYPES = (
    "price decimal(10,2), day date, at timestamp, ratio double, sent boolean, raw binary, "
    "tags array<string>, sizes map<string, long>"
)


def moment(seq: int) -> datetime.datetime:
    """Return a time that is a second later for each record, and after 20 records an hour later."""
    return FIRST + datetime.timedelta(seconds=seq + seq // 20 * 3600)


def write_files(places: Places) -> None:
    """Write the files of so many parts: one that grows with each part, and one more for each part."""
    folder = Path("input")
    folder.mkdir(exist_ok=True)
    for part in range(places.parts):
        lines = [" ".join(record(seq)[0] for seq in range(at, at + 4)) for at in range(part * PART, (part + 1) * PART)]
        if not (folder / f"{part}.txt").exists():
            (folder / f"{part}.txt").write_text("".join(f"{line}\n" for line in lines[:12]))
            with (folder / "growing.txt").open("a") as growing:
                growing.writelines(f"{line}\n" for line in lines[12:])


# --- programs -------------------------------------------------------------------------------------------------------


def kinds(places: Places) -> TridentTopology:
    """Keep states of the three kinds in memory, one of them in a later stage."""
    made = TridentTopology()
    words = made.newStream("numbers", numbers(places)).groupBy("word")
    counts = words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    words.persistentAggregate(MemoryMapState.transactional(), "seq", Sum(), "sum", name="sums")
    words.persistentAggregate(MemoryMapState.nonTransactional(), "seq", Max(), "most", name="most")
    changes = counts.newValuesStream().each("word", lambda word: word[0], "letter string").groupBy("letter")
    changes.persistentAggregate(MemoryMapState.opaque(), "count", Max(), "most", name="reached")
    return made


def stored(state: Callable[[Places], Any], evolved: bool = False) -> Callable[[Places], TridentTopology]:
    """Return the program that keeps counts, rows of all types, several aggregates and a set in a store.

    If it is `evolved`, the several aggregates have one more, a second sum, which begins with the first one.
    """

    def topology(places: Places) -> TridentTopology:
        made = TridentTopology()
        stream = made.newStream("numbers", numbers(places))
        words = stream.groupBy("word")
        words.persistentAggregate(state(places), Count(), "count", name="counts")
        several: Any = {"n": Count(), "sum": Sum("seq"), "most": Max("seq")}
        evolve = Evolution(was="n long, sum long, most long", add={"again": lambda old: old.sum})
        if evolved:
            several["again"] = Sum("seq")
        words.persistentAggregate(state(places), several, name="several", evolve=evolve if evolved else None)
        words.persistentAggregate(state(places), "seq", CollectSet(), "seqs", name="sets")
        rows = stream.each("seq", lambda seq: tuple(typed(seq).values()), TYPES)
        rows.project(f"seq, day, {', '.join(name for name in typed(0) if name != 'day')}").toTable(
            "day, seq", state(places), name="rows"
        )
        return made

    return topology


def windows(places: Places) -> TridentTopology:
    """Keep windows by count and by event time, sessions, and a join of two streams by time."""
    made = TridentTopology()
    stream = made.newStream("numbers", numbers(places)).each("seq", moment, "at timestamp")
    words, memory = stream.groupBy("word"), MemoryMapState.opaque
    fives = words.tumblingWindow(5, memory(), "seq", Sum(), "sum", name="fives")
    fives.groupBy("word").persistentAggregate(memory(), "sum", Sum(), "total", name="fives.left")
    by_time = TumblingEventTimeWindow(10, "at", lateness=2)
    tens = words.window(by_time, memory(), "seq", Sum(), "sum", name="tens")
    tens.groupBy("word").persistentAggregate(memory(), "sum", Sum(), "total", name="tens.left")
    visits = words.window(SessionWindow(600, "at", lateness=5), memory(), "seq", Sum(), "sum", name="visits")
    visits.groupBy("word").persistentAggregate(memory(), "sum", Sum(), "total", name="visits.left")
    first = stream.dropDuplicates("word", memory(), timestampField="at", within="30 minutes", name="seen")
    first.groupBy("word").persistentAggregate(memory(), Count(), "count", name="firsts")
    return made


def remembered(row: Any, state: KeyValueState) -> Iterator[tuple[str, int]]:
    """Keep the last number of a word, and set a timer for some records later. Emit nothing."""
    state.put(row.word, row.seq)
    state.setTimer(row.word, moment(row.seq + 7), f"after {row.seq}")
    yield from ()


def rung(timer: Any, state: KeyValueState) -> tuple[str, int]:
    return timer.name, state.get(timer.key)


def timers(places: Places) -> TridentTopology:
    """Keep timers of event time in memory, in SQLite and in Redis."""
    made = TridentTopology()
    stream = made.newStream("numbers", numbers(places)).each("seq", moment, "at timestamp")
    stores = {
        "memory": MemoryMapState.opaque(),
        "sqlite": SqliteMapState.opaque("states.db"),
        "redis": RedisMapState.opaque(places.redis, buckets=16),
    }
    for name, state in stores.items():
        fired = stream.statefulEach(
            remembered,
            "name string, last long",
            keyFields="word",
            valueType="long",
            stateFactory=state,
            onTimer=rung,
            timestampField="at",
            name=name,
        )
        fired.groupBy("name").persistentAggregate(MemoryMapState.opaque(), "last", Sum(), "sum", name=f"{name}.fired")
    return made


def files(places: Places) -> TridentTopology:
    """Count the words of files, one of which grows."""
    made = TridentTopology()
    lines = made.newStream("lines", FileSpout("input/*.txt", maxFilesPerBatch=1, maxBytesPerBatch=120))
    words = lines.each("line", words_of, "word string").groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return made


def words_of(line: str) -> Iterator[str]:
    yield from line.split()


def outputs(places: Places) -> TridentTopology:
    """Write tuples into a Parquet folder, a Delta table and a table of PostgreSQL."""
    made = TridentTopology()
    stream = made.newStream("numbers", numbers(places))
    stream.writeParquet("parquet", name="parquet")
    stream.writeDelta("delta", name="delta")
    stream.writeJdbc(places.postgres, "rows", key="seq", name="jdbc")
    stream.groupBy("word").persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return made


def written(places: Places) -> Any:
    """Return the rows of the three outputs, in order."""
    import psycopg
    import pyarrow.dataset as dataset
    from deltalake import DeltaTable

    tables = {
        "parquet": dataset.dataset(publishedFiles("parquet")).to_table(),
        "delta": DeltaTable("delta").to_pyarrow_table(),
    }
    held = {name: sorted([row["word"], row["seq"]] for row in table.to_pylist()) for name, table in tables.items()}
    with psycopg.connect(places.postgres) as connection:
        rows = connection.execute("select word, seq from rows").fetchall()
    return {**held, "jdbc": sorted(map(list, rows))}
