"""Reducers and updaters behind the work of Spark; and keys that meet exactly as Spark groups them."""

import datetime
import decimal
import functools
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.state.backing.maps import SqliteMap
from tests.support.server import RedisServer
from trident import Count, MapGet, Sum, TridentTopology, expr
from trident.base.spark_types import arrow_schema, parse_schema, spark_schema
from trident.base.value_conversion import to_python
from trident.compiler.states.updates import reducer_update
from trident.plan.nodes import PersistentReduce
from trident.spouts import FixedBatchSpout
from trident.state import BackingMapState, CombinerValueUpdater, MapState, MemoryMapState, RedisMapState
from trident_state.keys import encode_keys

pytestmark = pytest.mark.spark


class Joined:
    def init(self) -> str:
        return "<"

    def reduce(self, curr: str, tuple: Any) -> str:
        return curr + tuple.c


def add(state: MapState, tuples: Sequence[Any], collector: Any) -> None:
    keys = [t.k for t in tuples]
    for key, total in zip(
        keys, state.multiUpdate(keys, [CombinerValueUpdater(Sum(), t.n) for t in tuples]), strict=True
    ):
        collector.emit([key, total])


@pytest.mark.parametrize("inline", [True, False])
def test_reducers_and_updaters_behind_sparks_own_work(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native steps, Python steps and a join before the updates, state steps after them; large inputs as files too."""
    if not inline:
        monkeypatch.setattr("trident.compiler.spark.sessions.Sizes.large", lambda self, name, stage: _all(stage))
    topology = TridentTopology()
    spout = FixedBatchSpout("k string, n long, unread string", [[("a", 1, "-"), ("b", 2, "-")], [], [("a", 3, "-")]])
    rows = (
        topology.newStream("s", spout).each(expr("upper(k)"), "big string").each("big", lambda b: b + "!", "c string")
    )
    redis = RedisMapState.opaque(shared_redis.url, buckets=16)
    joined = rows.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "c", Joined(), "acc", name="acc")
    sums = rows.partitionPersist(redis, "k, n", add, "k string, t long", keyFields="k", valueType="long", name="sums")
    both = topology.join([joined.newValuesStream(everyChange=True), sums.newValuesStream(everyChange=True)], "k")
    both.each(expr("concat(acc, t)"), "text string").groupBy("text").persistentAggregate(
        redis, Count(), "n", name="texts"
    )
    asked = rows.stateQuery(sums, "k", MapGet(), "before")
    asked.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "before", Sum(), "s", name="befores")
    with topology.start(spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=120)
        found = {name: dict(running.state(name).items()) for name in ("acc", "sums", "texts", "befores")}
    assert found == {
        "acc": {"a": "<A!A!", "b": "<B!"},
        "sums": {"a": 4, "b": 2},
        "texts": {"<A!1": 1, "<B!2": 1, "<A!A!4": 1},
        "befores": {"a": 1, "b": 0},
    }


def _all(stage: Any) -> frozenset[str]:
    return frozenset(output.name for output in stage.outputs)


# --- keys -----------------------------------------------------------------------------------------------------------

FIELDS = (
    "t string, b boolean, i int, n long, x double, f float, d date, at timestamp, raw binary, "
    "p decimal(10,2), xs array<double>, s struct<a:double,b:string>"
)
VALUES: dict[str, list[Any]] = {
    "t": ["1", "True", "", "a", "A", "null", "NaN"],
    "b": [True, False],
    "i": [1, 0, -1],
    "n": [1, 0, 2**60],
    "x": [1.0, 0.0, -0.0, math.nan, -math.nan, math.inf, 5e-324],
    "f": [1.0, 0.0, -0.0, math.nan],
    "d": [datetime.date(1970, 1, 2), datetime.date(1, 1, 1)],
    "at": [datetime.datetime(1970, 1, 2, tzinfo=datetime.UTC), datetime.datetime(1999, 9, 9, 9, tzinfo=datetime.UTC)],
    "raw": [b"1", b"", b"\x00"],
    "p": [decimal.Decimal("1.00"), decimal.Decimal("0.10")],
    "xs": [[1.0], [0.0], [-0.0], [math.nan, None], [], [None]],
    "s": [{"a": 0.0, "b": "x"}, {"a": -0.0, "b": "x"}, {"a": math.nan, "b": None}, {"a": None, "b": None}],
}
SCHEMA = parse_schema(FIELDS)


class Counted:
    def init(self) -> int:
        return 0

    def reduce(self, curr: int, tuple: Any) -> int:
        return curr + 1


class Empty:
    def read(self, keys: pa.Table) -> pa.Array:
        return pa.nulls(keys.num_rows, pa.int64())

    def scan(self) -> Any:
        return iter(())


@st.composite
def keyed(draw: st.DrawFn) -> pa.Table:
    """Rows of one to three key fields of any type, many of them alike, nulls among them."""
    names = draw(st.lists(st.sampled_from(SCHEMA.names), min_size=1, max_size=3, unique=True))
    kinds = arrow_schema(SCHEMA)
    rows = draw(st.integers(1, 40))
    columns = [
        draw(st.lists(st.none() | st.sampled_from(VALUES[name]), min_size=rows, max_size=rows)) for name in names
    ]
    fields = [kinds.field(name) for name in names]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, fields, strict=True)], schema=pa.schema(fields))


def counted_by_spark(spark: SparkSession, table: pa.Table) -> list[Any]:
    frame = spark.createDataFrame(table, schema=spark_schema(table.schema))
    grouped = frame.groupBy(*table.schema.names).count().toArrow()
    grouped = grouped.cast(table.schema.append(pa.field("count", pa.int64())))
    return by_encoding(grouped)


def by_encoding(table: pa.Table) -> list[Any]:
    """(key, count): the key as the bytes under which states know it."""
    keys = encode_keys(table.select(table.column_names[:-1])).to_pylist()
    return sorted(zip(keys, to_python(table.column(table.num_columns - 1)), strict=True))


@given(keyed())
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_keys_of_any_type_meet_exactly_when_spark_groups_them(spark: SparkSession, table: pa.Table) -> None:
    """In what a reducer folds; the states' own bytes tell the keys apart, so a wrong meeting or parting shows."""
    topology = TridentTopology()
    stream = topology.newStream("s", FixedBatchSpout(spark_schema(table.schema), [[]]))
    stream.groupBy(table.schema.names).persistentAggregate(MemoryMapState.opaque(), Counted(), "count", name="c")
    step = topology.states[0]
    assert isinstance(step, PersistentReduce)
    assert by_encoding(reducer_update(step)(table, Empty(), 1).puts) == counted_by_spark(spark, table)


@pytest.mark.parametrize("home", ["memory", "redis", "json and a map of one's own"])
def test_compound_keys_of_every_type_in_states(
    spark: SparkSession, shared_redis: RedisServer, tmp_path: Path, home: str
) -> None:
    """Counted, folded and updated over several batches, found again by their values, and equal to Spark's groupBy."""
    kinds = arrow_schema(SCHEMA)
    rows = [
        [VALUES[name][(at * (place + 3) + at // 7) % len(VALUES[name])] if (at + place) % 5 else None
         for place, name in enumerate(SCHEMA.names)]
        for at in range(160)
    ]  # fmt: skip
    rows += rows[:50]
    own = BackingMapState.opaque(functools.partial(SqliteMap, str(tmp_path / "own.db")))
    homes: dict[str, list[Any]] = {
        "memory": [MemoryMapState.opaque()],
        "redis": [RedisMapState.opaque(shared_redis.url, buckets=16)],
        "json and a map of one's own": [RedisMapState.opaque(shared_redis.url, buckets=16, values="json"), own],
    }
    states = itertools.cycle(homes[home])

    def state() -> Any:
        return next(states)

    topology = TridentTopology()
    batches = [[tuple(row) for row in rows[at : at + 70]] for at in range(0, len(rows), 70)]
    stream = topology.newStream("s", FixedBatchSpout(SCHEMA, batches))
    keys = [("t", "x"), ("xs",), ("s", "at", "b", "n"), ("raw", "p", "f", "i", "d")]
    for at, names in enumerate(keys):
        grouped = stream.groupBy(*names)
        grouped.persistentAggregate(state(), Count(), "many", name=f"counted{at}")
        grouped.persistentAggregate(state(), Counted(), "many", name=f"folded{at}")

        def count(found: MapState, tuples: Sequence[Any], collector: Any) -> None:
            found.multiUpdate([tuple(t) for t in tuples], [lambda stored: (stored or 0) + 1] * len(tuples))

        stream.partitionPersist(
            state(), list(names), count, keyFields=list(names), valueType="long", name=f"updated{at}"
        )
    with topology.start(spark, name="t", checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=180)
        for at, names in enumerate(keys):
            columns = [
                pa.array([row[SCHEMA.names.index(name)] for row in rows], kinds.field(name).type) for name in names
            ]
            table = pa.table(columns, schema=pa.schema([kinds.field(name) for name in names]))
            expected = counted_by_spark(spark, table)
            for kind in ("counted", "folded", "updated"):
                view = running.state(f"{kind}{at}")
                assert by_encoding(view.toArrow()) == expected, f"{kind} by {names}"
                some = [tuple(row) for row in zip(*[to_python(column) for column in table.columns], strict=True)][:20]
                found = view.multiGet([row[0] for row in some] if len(names) == 1 else some)
                encoded = encode_keys(table.slice(0, 20)).to_pylist()
                assert found == [dict(expected)[key] for key in encoded]
