"""The cost of each built-in aggregator in a state, for one key and batch: ``python -m benchmarks.aggregator_cost``.

A batch has one tuple for each key. Its time has two parts: the fold of the tuples, and the state that combines the
results with the stored values. The content of each state is compared with what the methods for one value give. Times
in memory are processor time, those with Redis are wall time.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.check import WrongAnswerError
from benchmarks.row import Row
from benchmarks.state_cost import LEASE
from benchmarks.timing import median
from tests.support.server import RedisServer
from trident import (
    Average,
    CollectList,
    CollectSet,
    Count,
    CountDistinct,
    First,
    Last,
    Max,
    MaxBy,
    Median,
    Min,
    MinBy,
    Quantiles,
    StdDev,
    Sum,
    TopK,
    TridentTopology,
)
from trident.base.value_conversion import to_python
from trident.compiler.aggregates.column_combiners import Position
from trident.compiler.aggregates.folds import fold_columns
from trident.compiler.aggregates.specs import fold_spec
from trident.compiler.columns.columns import Columns
from trident.compiler.states.shapes import shape_of
from trident.log.snapshot_home import NoHome
from trident.plan.nodes import PersistentAggregate
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory
from trident_state.state_shape import StateIdentity
from trident_state.store_messages import Update

MOST = 3.0
"""The most microseconds that one aggregator may take for a key and batch in a memory state, fold included."""

MOST_OF_COUNT = 1.2
"""On Redis an aggregator takes at most this many times the time of Count."""

SCHEMA = pa.schema({"k": pa.int64(), "n": pa.int64(), "x": pa.float64(), "word": pa.string()})

ONE: dict[str, Any] = {
    "Count": Count(),
    "Max": Max("n"),
    "StdDev": StdDev("x"),
    "Average": Average("n"),
    "MaxBy": MaxBy("word", "n"),
    "MinBy": MinBy("word", "x"),
    "First": First("word"),
    "Last": Last("word"),
    "TopK(1)": ("n, x", TopK(1)),
    "TopK(10)": ("n, x", TopK(10)),
    "CollectList": CollectList("n"),
    "CollectSet": CollectSet("n"),
    "Median": Median("n"),
    "CountDistinct": ("n", CountDistinct()),
    "Quantiles": ("x", Quantiles(0.5)),
}

BUNDLES: dict[str, dict[str, Any]] = {
    "Count, Sum, Min, Max, Average": {
        "count": Count(),
        "total": Sum("n"),
        "least": Min("n"),
        "most": Max("n"),
        "mean": Average("n"),
    },
    "4 MaxBy": {"a": MaxBy("word", "n"), "b": MaxBy("x", "n"), "c": MaxBy("k", "n"), "d": MaxBy("word", "x")},
}


@dataclass(frozen=True)
class Scale:
    """The number of keys and batches of a run, and of runs whose median counts."""

    keys: int = 20_000
    batches: int = 6
    rounds: int = 3


SMALL = Scale(300, 3, 1)


def aggregator_rows(server: RedisServer, scale: Scale) -> Iterator[Row]:
    """Measure each aggregator and each bundle in memory, then the aggregators in Redis against Count."""
    parts: dict[str, float] = {}
    for name, how in {**ONE, **BUNDLES}.items():
        took, fold = _microseconds(how, scale, None)
        what = f"{name} in a memory state: fold ({fold:.2f}) and state, for one of {scale.keys:,} keys and batch"
        parts[name] = took
        yield Row(f"aggregator.{name}.memory", what, took, None, "µs", MOST if name in ONE else None, "at most")
    total = sum(parts[name] for name in ("Count", "Max", "Max", "Max", "Average"))
    what = "Count, Sum, Min, Max and Average in one memory state; against the sum of its parts"
    yield Row("aggregator.bundle.memory", what, parts["Count, Sum, Min, Max, Average"], total, "µs", 1.0, "at most")
    of_count = None
    for name, how in ONE.items():
        took, _ = _microseconds(how, scale, server)
        what = f"{name} in a Redis state: fold and state, for one of {scale.keys:,} keys and batch; against Count"
        of_count = of_count or took
        yield Row(f"aggregator.{name}.redis", what, took, of_count, "µs", MOST_OF_COUNT, "at most")


def _microseconds(how: Any, scale: Scale, server: RedisServer | None) -> tuple[float, float]:
    """Return the microseconds for one key and batch: of all, and of the fold alone."""
    tables = [_batch(scale.keys, number) for number in range(scale.batches)]
    alone, whole = [], []
    for _ in range(scale.rounds):
        if server is not None:
            server.client.flushall()
        clock = time.process_time if server is None else time.perf_counter
        folds, applies = _run(how, tables, MemoryMapState.opaque() if server is None else _redis(server), clock)
        alone.append(median(folds))
        whole.append(median(folds) + median(applies))
    return 1e6 * median(whole) / scale.keys, 1e6 * median(alone) / scale.keys


def _redis(server: RedisServer) -> StateFactory:
    return RedisMapState.opaque(server.url)


def _batch(keys: int, number: int) -> pa.Table:
    """Return a batch with each key once, in another order each time."""
    random = np.random.default_rng(number)
    n = random.integers(0, 1000, keys)
    columns = [random.permutation(keys), n, n / 8, [f"word{value % 97}" for value in n]]
    return pa.table(columns, schema=SCHEMA)


def _run(
    how: Any, tables: list[pa.Table], factory: StateFactory, clock: Callable[[], float]
) -> tuple[list[float], list[float]]:
    """Return the seconds of each batch but the first, which has no stored values: of the folds, and of the state."""
    node = _node(how)
    spec, shape = fold_spec(node), shape_of(node)
    store = factory.open(StateIdentity("bench", "held", "log"), shape, NoHome())
    store.create(LEASE, 0)
    store.acquire(LEASE)
    folds, applies = [], []
    for txid, table in enumerate(tables, start=1):
        began = clock()
        columns = Columns.of(table, SCHEMA)
        deltas = spec.presented(fold_columns(spec, [columns], Position(txid))).table(spec.leaving)
        folded = clock()
        store.apply(LEASE, Update(txid, deltas.select(["k"]), deltas.column(1).combine_chunks()))
        if txid > 1:
            folds.append(folded - began)
            applies.append(clock() - folded)
    _check(how, node, tables, lambda keys: store.read(keys, len(tables)).values)
    store.close()
    return folds, applies


def _node(how: Any) -> PersistentAggregate:
    topology = TridentTopology()
    fields = "k long, n long, x double, word string"
    grouped = topology.newStream("rows", FixedBatchSpout(fields, [[]])).groupBy("k")
    state = MemoryMapState.opaque()
    if isinstance(how, Mapping):
        grouped.persistentAggregate(state, how, name="held")
    elif isinstance(how, tuple):
        grouped.persistentAggregate(state, *how, "held", name="held")
    else:
        grouped.persistentAggregate(state, how, "held", name="held")
    (node,) = [node for node in topology.nodes if isinstance(node, PersistentAggregate)]
    return node


def _check(how: Any, node: PersistentAggregate, tables: list[pa.Table], read: Any) -> None:
    """Compare the presented values of some keys with those of the methods for one value."""
    aggregator = node.aggregation.aggregator
    keys = list(range(0, tables[0].num_rows, max(1, tables[0].num_rows // 50)))
    rows: dict[int, list[Any]] = {key: [] for key in keys}
    for table in tables:
        values = [to_python(table.column(name)) for name in node.inputs]
        for key, *own in zip(table.column("k").to_pylist(), *values, strict=True):
            if key in rows:
                rows[key].append(tuple(own))
    present = getattr(aggregator, "present", None) or (lambda value: value)
    found = [present(value) for value in to_python(read(pa.table({"k": pa.array(keys, pa.int64())})))]
    named = _named(node.inputs)
    expected = [present(reduce(aggregator.combine, map(aggregator.init, map(named, rows[key])))) for key in keys]
    if repr(found).replace("Row", "") != repr(expected).replace("Row", "") and not _alike(found, expected):
        raise WrongAnswerError(f"{how!r}: {found[:3]} for {expected[:3]}")


def _named(names: tuple[str, ...]) -> Any:
    from trident.operations.tuples import tuple_type

    return tuple_type(names)


def _alike(found: Any, expected: Any) -> bool:
    """Return whether two results are equal, doubles up to their last digits, and a Row as a tuple."""
    if isinstance(found, list | tuple):
        return len(found) == len(expected) and all(map(_alike, found, expected))
    return bool(np.isclose(found, expected, rtol=1e-9)) if isinstance(found, float) else bool(found == expected)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small data, one round: does everything run?")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, RedisServer(Path(folder, "redis"), "everysec") as server:
        for row in aggregator_rows(server, SMALL if asked.quick else Scale()):
            ratio = "" if row.ratio is None else f"  ratio {row.ratio:.2f}"
            met = "" if row.ok is None else f"  target {row.target}: {'met' if row.ok else 'MISSED'}"
            print(f"{row.id:46} {row.ours:8.2f} {row.unit}{ratio}{met}   {row.what}", flush=True)


if __name__ == "__main__":
    main()
