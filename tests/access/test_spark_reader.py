"""The data source of Spark, called as Spark calls it, without a JVM: options, parts, errors."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan
from pyspark.sql.types import StructType

from tests.access.small_topologies import Fed, counted, counting, fixed
from tests.support.server import RedisServer
from trident import Count, TridentDataSource, TridentTopology, dropState
from trident.access.spark_options import StateOptions
from trident.access.spark_source import StateReader
from trident.errors import (
    SnapshotMovedError,
    StateEndedError,
    StateError,
    StateKeyError,
    StateShapeError,
    TopologyError,
)
from trident.state import DeltaMapState, MemoryMapState, RedisMapState, SqliteMapState
from trident_state.redis import store as redis_store


def reader(**options: str) -> StateReader:
    source = TridentDataSource({"path": "counts", **options})
    return source.reader(source.schema())


def rows(parts: Any, read: StateReader) -> Iterator[dict[str, Any]]:
    for part in parts:
        for batch in read.read(part):
            yield from batch.to_pylist()


@pytest.fixture(params=["memory", "redis", "sqlite", "delta"])
def fed(request: pytest.FixtureRequest, tmp_path: Path, shared_redis: RedisServer) -> tuple[Fed, dict[str, str], Any]:
    """A running topology, the options of a read of its state, and the state."""
    state: Any = MemoryMapState.opaque()
    where = {"checkpoint": str(tmp_path)}
    if request.param == "redis":
        state, where = RedisMapState.opaque(shared_redis.url), {"url": shared_redis.url, "topology": "wc"}
    elif request.param == "sqlite":
        state = SqliteMapState.opaque(tmp_path / "states.db")
        where |= {"sqlite": str(tmp_path / "states.db")}
    elif request.param == "delta":
        state = DeltaMapState.transactional(str(tmp_path / "tables"))
        where |= {"delta": str(tmp_path / "tables")}
    return Fed(state, checkpointLocation=tmp_path), where, state


def test_all_parts_are_as_of_the_planned_txid_or_fail(fed: tuple[Fed, dict[str, str], Any]) -> None:
    run, where, _ = fed
    run.feed("dog", "cat")
    read = reader(**where, partitions="3")
    parts = read.partitions()
    assert {part.txid for part in parts} == {1} and len(parts) == 3  # type: ignore[attr-defined]
    run.feed("dog", "emu")
    expected = [{"word": "cat", "value": 1}, {"word": "dog", "value": 1}]
    assert sorted(rows(parts, read), key=lambda row: row["word"]) == expected
    run.feed("dog")
    if where.keys() & {"sqlite", "url"}:
        with pytest.raises(
            SnapshotMovedError, match="planned as of txid 1, and the topology has committed two further"
        ):
            list(rows(parts, read))
    else:  # a copy of a state in memory is made up to the planned batch, and a Delta table keeps its files
        assert sorted(rows(parts, read), key=lambda row: row["word"]) == expected
    for number in ("1", "2"):
        early = reader(**where, partitions=number, asOf="2", txidColumn="txid")
        found = {row["word"]: (row["value"], row["txid"]) for row in rows(early.partitions(), early)}
        assert found == {"dog": (2, 2), "cat": (1, 2), "emu": (1, 2)}
    again = read.partitions()
    assert {row["word"]: row["value"] for row in rows(again, read)} == {"dog": 3, "cat": 1, "emu": 1}


@pytest.mark.filterwarnings("ignore:state .counts. is new")
def test_a_read_ends_if_the_state_is_recreated(fed: tuple[Fed, dict[str, str], Any], tmp_path: Path) -> None:
    run, where, state = fed
    run.feed("dog", "cat")
    read = reader(**where, partitions="2")
    parts = read.partitions()
    run.running.stop()
    options: dict[str, Any] = {"factory": state} if where.keys() & {"sqlite", "delta"} else {"url": where.get("url")}
    dropState("wc", "counts", tmp_path, **options)
    restarted = Fed(state, checkpointLocation=tmp_path)
    restarted.running.stop()
    with pytest.raises(StateEndedError, match="was dropped or reset after this read was planned"):
        list(rows(parts, read))


def test_only_filters_on_whole_keys_are_pushed(tmp_path: Path) -> None:
    counted(counting(fixed(["dog", "cat", "dog"])), checkpointLocation=tmp_path)
    read = reader(checkpoint=str(tmp_path), partitions="2", pushdown="True")
    filters = [GreaterThan(("value",), 0)]
    assert list(read.pushFilters([*filters])) == filters and len(read.partitions()) == 2
    filters = [EqualTo(("word",), "dog"), *filters]  # type: ignore[list-item]
    assert list(read.pushFilters([*filters])) == filters
    (part,) = read.partitions()
    assert list(rows([part], read)) == [{"word": "dog", "value": 2}]


def test_a_state_that_the_program_no_longer_has_is_read_in_parts(tmp_path: Path) -> None:
    counted(counting(fixed(["dog", "cat"]), others=MemoryMapState.opaque()), checkpointLocation=tmp_path)
    counted(counting(fixed(["dog", "cat"], ["dog"], ["emu"])), checkpointLocation=tmp_path)
    read = TridentDataSource({"path": "others", "checkpoint": str(tmp_path), "partitions": "2"})
    without = read.reader(read.schema())
    assert sorted(row["word"] for row in rows(without.partitions(), without)) == ["cat", "dog"]


def test_listed_keys_are_read_alone(fed: tuple[Fed, dict[str, str], Any]) -> None:
    run, where, _ = fed
    run.feed("dog", "cat", "dog")
    read = reader(**where, keys='["dog", "gnu", "dog"]', partitions="3", txidColumn="txid")
    (part,) = read.partitions()
    assert list(rows([part], read)) == [{"word": "dog", "value": 2, "txid": 1}]
    assert not list(rows([part], reader(**where, keys="[]")))
    for wrong in ('"dog"', "dog", "[7]", '[["dog", "cat"]]'):
        with pytest.raises(StateKeyError, match="expected a JSON list of keys|invalid key"):
            reader(**where, keys=wrong).partitions()


def test_a_large_state_in_redis_is_divided_by_its_groups(
    shared_redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [f"word{number}" for number in range(400)]
    counted(
        counting(fixed(words), RedisMapState.opaque(shared_redis.url, buckets=64, groups=4)),
        checkpointLocation=tmp_path,
    )
    read = reader(url=shared_redis.url, topology="wc")
    assert len(read.partitions()) == 1
    monkeypatch.setattr(redis_store, "_UNDIVIDED", 300)
    parts = read.partitions()
    found = [[row["word"] for row in rows([part], read)] for part in parts]
    assert len(parts) == 4 and all(found) and sorted(sum(found, [])) == sorted(words)
    monkeypatch.setattr(redis_store, "_PART_ENTRIES", 50)
    assert len(read.partitions()) == 8
    assert sorted(row["word"] for row in rows(read.partitions(), read)) == sorted(words)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"chekpoint": "x"}, "has no option 'chekpoint'; it takes topology, checkpoint, .*did you mean 'checkpoint'"),
        ({"url": "redis://:secret@host"}, r"url='redis://:\*\*\*@host' contains a password"),
        ({"postgresUrl": "postgresql://me:secret@host/db"}, "write env:NAME or file:path"),
        ({"checkpoint": "/x", "partitions": "none"}, "partitions='none': expected a whole number, 1 or more"),
        ({}, "give the location of the state by one of checkpoint, url, logUrl, sqlite, postgresUrl, delta"),
        ({"checkpoint": "/x", "pushdown": "yes"}, "pushdown='yes': expected true or false"),
        ({"checkpoint": "/x", "path": ""}, "name the state"),
    ],
)
def test_a_wrong_option_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(TopologyError, match=message) as error:
        TridentDataSource({"path": "counts", **options})
    assert "secret" not in str(error.value)


def test_the_topology_may_be_left_out_if_there_is_one(tmp_path: Path) -> None:
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path)
    assert reader(checkpoint=str(tmp_path)).partitions()
    topology = TridentTopology()
    topology.newStream("w", fixed(["dog"])).groupBy("word").persistentAggregate(
        MemoryMapState.opaque(), Count(), "n", name="others"
    )
    from trident.testing.local import start_local

    with start_local(topology, name="second", checkpointLocation=tmp_path) as running:
        running.processAllAvailable()
    with pytest.raises(TopologyError, match=r"option\(\"topology\", ...\); the checkpoint has second, wc"):
        reader(checkpoint=str(tmp_path))
    with pytest.raises(StateError, match="no state 'cuonts' in topology 'wc'; did you mean 'counts'"):
        TridentDataSource({"path": "cuonts", "checkpoint": str(tmp_path), "topology": "wc"}).schema()


@pytest.mark.parametrize("name", ["checkpoint", "sqlite", "delta"])
def test_a_relative_path_is_within_the_base_or_refused(name: str) -> None:
    """Spark reads the options in a process whose folder is that in which the session began."""
    given = {"path": "counts", name: "here/states"}
    assert getattr(StateOptions.read(given | {"base": "/data"}), name) == "/data/here/states"
    assert getattr(StateOptions.read({"path": "counts", name: "/d/states", "base": "/data"}), name) == "/d/states"
    with pytest.raises(TopologyError, match=rf"{name}='here/states' is a relative path.*give an absolute path"):
        StateOptions.read(given)
    with pytest.raises(TopologyError, match="base='data': expected an absolute path"):
        StateOptions.read(given | {"base": "data"})


def test_a_state_is_found_within_the_base(tmp_path: Path) -> None:
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path / "wc.ckpt")
    read = reader(checkpoint="wc.ckpt", base=str(tmp_path), partitions="1")
    assert list(rows(read.partitions(), read)) == [{"word": "dog", "value": 1}]


def test_another_schema_than_the_states_is_refused(tmp_path: Path) -> None:
    counted(counting(fixed(["dog"])), checkpointLocation=tmp_path)
    source = TridentDataSource({"path": "counts", "checkpoint": str(tmp_path)})
    with pytest.raises(StateShapeError, match="omit the schema"):
        source.reader(StructType().add("word", "string"))
    taken = TridentDataSource({"path": "counts", "checkpoint": str(tmp_path), "txidColumn": "word"})
    with pytest.raises(TopologyError, match="state 'counts' has a column of this name"):
        taken.schema()
