"""Streams of changes, against the same work over inserts: aggregates, and the join of two tables."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks.bench import Bench
from benchmarks.check import WrongAnswerError
from benchmarks.orders import Orders, make_orders
from benchmarks.row import Row
from benchmarks.rows.over_time import SCHEMAS, WITHIN
from benchmarks.timing import Timed, median
from benchmarks.workload import Workload
from trident import Count, Stream, Sum, TridentTopology, publishedFiles
from trident.spouts import FileSpout
from trident.state import MemoryMapState

GROUPS = 10_000
_OF_INSERTS, _OF_JOINS = 0.7, 1.0
_SCHEMA = "id long, g long, v long, op string"


def changes(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure both sides in turn, round after round, and compare what they come to."""
    del load
    expected = _make_changes(bench.folder / "changes", bench.scale.files, bench.scale.lines)
    for engine in ("spark", "embedded"):
        yield _aggregates(bench, engine, expected)
    yield _joins(bench, make_orders(bench.folder / "tables", bench.scale.files, bench.scale.lines))


# --- aggregates -----------------------------------------------------------------------------------------------------


def _make_changes(folder: Path, files: int, rows: int) -> dict[bool, dict[int, tuple[int, int]]]:
    """Write files of changes: a fifth of the rows are deleted later. Return each group's count and sum at the end:
    over all tuples as if they were inserted, and over the changes."""
    folder.mkdir()
    random, expected = np.random.default_rng(17), dict[bool, dict[int, tuple[int, int]]]()
    ids = np.arange(files * rows)
    groups, values = random.integers(0, GROUPS, len(ids)), random.integers(0, 1000, len(ids))
    gone = np.flatnonzero(random.random(len(ids)) < 0.2)
    leaves = gone + random.integers(1, 2 * rows, len(gone))
    at = np.concatenate([ids, leaves])
    order = np.argsort(at, kind="stable")
    all_ids = np.concatenate([ids, gone])[order]
    sign = np.concatenate([np.ones(len(ids), np.int64), -np.ones(len(gone), np.int64)])[order]
    op = np.where(sign > 0, "c", "d")
    for number, cut in enumerate(np.array_split(np.arange(len(all_ids)), files)):
        own = all_ids[cut]
        table = pa.table({"id": own, "g": groups[own], "v": values[own], "op": pa.array(op[cut].tolist())})
        pq.write_table(table, folder / f"{number:03d}.parquet")
    for with_changes in (False, True):
        factor = sign if with_changes else np.ones_like(sign)
        counts = np.bincount(groups[all_ids], factor, GROUPS)
        sums = np.bincount(groups[all_ids], factor * values[all_ids], GROUPS)
        pairs = enumerate(zip(counts, sums, strict=True))
        expected[with_changes] = {group: (int(n), int(total)) for group, (n, total) in pairs if n}
    return expected


def _aggregates(bench: Bench, engine: str, expected: dict[bool, dict[int, tuple[int, int]]]) -> Row:
    took: dict[bool, list[float]] = {False: [], True: []}
    for number in bench.scale.turns:
        for with_changes in took:
            folder = bench.fresh()
            with Timed() as timed:
                running = _aggregate(bench, engine, with_changes, folder)
                running.processAllAvailable()
            found = {key: tuple(value) for key, value in running.state("sums").items()}
            running.stop()
            bench.drop(folder)
            if found != expected[with_changes]:
                raise WrongAnswerError(f"changes {with_changes}: other counts and sums of {len(found)} groups")
            print(f"    round {number or 'to warm up'}: changes {with_changes} {timed.seconds:.2f} s", flush=True)
            if number:
                took[with_changes].append(timed.seconds)
    rows = sum(pq.read_metadata(file).num_rows for file in (bench.folder / "changes").iterdir())
    ours, other = (rows / median(took[with_changes]) for with_changes in (True, False))
    what = "engine " + engine + ": Count and Sum by group over changes, a fifth of them deletions; against inserts"
    return Row(f"changes.aggregate.{engine}", what, ours, other, "tuples/s", _OF_INSERTS)


def _aggregate(bench: Bench, engine: str, with_changes: bool, folder: Path) -> Any:
    topology = TridentTopology()
    files = FileSpout(str(bench.folder / "changes" / "*.parquet"), "parquet", schema=_SCHEMA, maxFilesPerBatch=1)
    stream: Any = topology.newStream("rows", files)
    if with_changes:
        stream = stream.asChanges("op", {"c": "insert", "d": "delete"})
    several = {"n": Count(), "total": Sum("v")}
    stream.groupBy("g").persistentAggregate(MemoryMapState.opaque(), several, name="sums")
    spark = bench.spark if engine == "spark" else None
    start = partial(topology.start, name="sums", checkpointLocation=str(folder / "checkpoint"))
    return start(spark) if spark is not None else start(engine="embedded")


# --- joins ----------------------------------------------------------------------------------------------------------


def _joins(bench: Bench, orders: Orders) -> Row:
    took: dict[str, list[float]] = {"intervalJoin": [], "table.join": []}
    for number in bench.scale.turns:
        for name in took:
            folder = bench.fresh()
            with Timed() as timed:
                _join(bench, orders, name, folder)
            ids = ds.dataset(publishedFiles(str(folder / "out"))).to_table()["id"].to_numpy()
            wanted = orders.paid if name == "intervalJoin" else np.unique(orders.paid)
            if not np.array_equal(np.sort(ids), wanted):
                raise WrongAnswerError(f"{name}: {len(ids)} tuples, not {len(wanted)}, or other ids")
            bench.drop(folder)
            print(f"    round {number or 'to warm up'}: {name} {timed.seconds:.2f} s", flush=True)
            if number:
                took[name].append(timed.seconds)
    ours, other = (orders.rows_of("join") / median(took[name]) for name in ("table.join", "intervalJoin"))
    what = "the changes of the join of two tables by key, memory states, Parquet to Parquet; against intervalJoin"
    return Row("changes.join", what, ours, other, "tuples/s", _OF_JOINS)


def _join(bench: Bench, orders: Orders, name: str, folder: Path) -> None:
    topology, out = TridentTopology(), str(folder / "out")

    def stream(of: str) -> Stream:
        files = FileSpout(str(orders.folder / of / "*.parquet"), "parquet", schema=SCHEMAS[of], maxFilesPerBatch=1)
        return topology.newStream(of, files)

    one, other = stream("orders"), stream("payments")
    if name == "intervalJoin":
        near = ("0 seconds", WITHIN)
        times = {"timestampField": "at", "otherTimestampField": "paidAt", "lateness": WITHIN}
        one.intervalJoin(other, "id", near, **times).writeParquet(out)
    else:
        tables = (one.project("id", "amount").toTable("id"), other.project("id", "paid").toTable("id"))
        tables[0].join(tables[1]).toStream().filter("_change_type", _added).writeParquet(out)
    running = topology.start(bench.spark, name=name.replace(".", ""), checkpointLocation=str(folder / "checkpoint"))
    running.processAllAvailable()
    running.stop()


def _added(kind: str) -> bool:
    return kind == "insert"
