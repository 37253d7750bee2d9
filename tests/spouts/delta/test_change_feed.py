"""DeltaSpout(changes=True): the changes of each version are Delta's, and states over them are the table's content."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.spouts.delta.tables import FEED, WORDS, Table, last_position, read_all
from tests.spouts.delta.test_delta_spout import VECTOR
from tests.support.soak import some_of
from trident import Count, Max, TridentTopology
from trident.errors import DataLossError, SourceUnreadableError, SpoutContractError, TopologyError
from trident.spouts import DeltaSpout
from trident.state import MemoryMapState
from trident.testing import CRASH_POINTS, crash_at, run_through

POINTS = [point for point in CRASH_POINTS if not point.startswith(("output.", "snapshot."))]


def kept(path: Path, *ids: int, **options: Any) -> Table:
    """Return a new table that keeps its changes."""
    return Table(path).add(*ids, configuration=FEED, **options)


def flat(batches: list[list[Any]]) -> list[Any]:
    return [row for batch in batches for row in batch]


def change(table: Table, chance: random.Random) -> None:
    """Commit one version, or a few, as programs that change tables do."""
    ids = sorted(table.rows())
    some = chance.sample(ids, chance.randint(0, min(3, len(ids))))
    new = sorted(set(range(chance.randint(1, 40), 45)) - set(ids))[: chance.randint(1, 3)]
    named, word = ", ".join(map(str, some)), f"w{chance.randint(0, 3)}"
    match chance.choice(("add", "add", "delete", "update", "update", "merge", "merge", "move", "overwrite", "compact")):
        case "delete" if some:
            table.delta.delete(f"id in ({named})")
        case "update" if some:
            table.delta.update(updates={"word": f"'{word}'"}, predicate=f"id in ({named})")
        case "merge":
            source = pa.table({"id": some + new, "word": [word] * len(some + new)}, schema=WORDS)
            merge = table.delta.merge(source, "s.id = t.id", source_alias="s", target_alias="t")
            deleting = merge.when_matched_delete if chance.random() < 0.3 else merge.when_matched_update_all
            deleting().when_not_matched_insert_all().execute()
        case "move":  # rows take over the keys of others
            table.delta.update(updates={"id": "id + 1"})
        case "overwrite":
            table.add(*chance.sample(ids, len(ids) // 2), mode="overwrite")
        case "compact":
            table.delta.optimize.compact()
        case _:
            table.add(*new)


@pytest.mark.parametrize("partition_by", [None, ["word"]])
@pytest.mark.parametrize("seed", some_of(range(10), [0]))
def test_each_version_has_the_changes_that_delta_names(seed: int, partition_by: Any, tmp_path: Path) -> None:
    chance, table = random.Random(seed), kept(tmp_path / "table", 1, 2, 3, partition_by=partition_by)
    for _ in range(12):
        change(table, chance)
    fields = "id long, word string, _change_type string, _commit_version long"
    spout = DeltaSpout(table.path, fields, startingVersion="earliest", changes=True, maxFilesPerBatch=2)
    feed = pa.table(table.delta.load_cdf(0).read_all()).select(["id", "word", "_change_type", "_commit_version"])
    assert Counter(flat(read_all(spout))) == Counter(tuple(row.values()) for row in feed.to_pylist())


def add_states(topology: TridentTopology, table: Table, name: str, **options: Any) -> Any:
    spout = DeltaSpout(table.path, changes=True, **options)
    changes = topology.newStream(name, spout).asChanges()
    by_word = changes.groupBy("word")
    by_word.persistentAggregate(MemoryMapState.opaque(), {"n": Count(), "last": Max("id")}, name=f"words_{name}")
    return changes.toTable("id", name=name)


def check_states(running: Any, tables: list[Table]) -> None:
    one, other = (table.rows() for table in tables)
    for name, rows in (("one", one), ("other", other)):
        assert dict(running.state(name).items()) == {id: (word,) for id, word in rows.items()}
        words = {word: (n, max(id for id in rows if rows[id] == word)) for word, n in Counter(rows.values()).items()}
        assert dict(running.state(f"words_{name}").items()) == words
    joined = {id: (one[id], other[id]) for id in one if id in other}
    assert dict(running.state("joined").items()) == joined


@pytest.mark.parametrize("point", some_of(POINTS, POINTS[8:24:3]))
def test_states_are_the_tables_content_after_each_crash(point: str, tmp_path: Path) -> None:
    chance = random.Random(POINTS.index(point))
    tables = [kept(tmp_path / "one", 1, 2, 3), kept(tmp_path / "other", 3, 4, partition_by=["word"])]
    topology = TridentTopology()
    one = add_states(topology, tables[0], "one", maxFilesPerBatch=chance.randint(1, 3))
    other = add_states(topology, tables[1], "other", startingVersion="earliest", maxFilesPerBatch=2)
    one.join(other, outputFields="word_of_other").toTable("id", name="joined")
    for visit in (1, 3):
        for table in tables * 4:
            change(table, chance)
        with crash_at(point, visit), run_through(topology, name="t", checkpointLocation=tmp_path / "ckpt") as running:
            check_states(running, tables)


def test_rows_that_leave_come_before_those_that_take_their_keys(tmp_path: Path) -> None:
    table = kept(tmp_path / "table", 1, 2, 3)
    spout = DeltaSpout(table.path, changes=True)
    position = last_position(spout)
    table.delta.update(updates={"id": "id + 1"})
    table.add(1, 2, mode="overwrite")
    kinds = [kind for _, _, kind in flat(read_all(spout, position))]
    leave, come = ["update_preimage"] * 3, ["update_postimage"] * 3
    assert kinds == [*leave, *come, *["delete"] * 3, *["insert"] * 2]


def test_a_snapshot_and_the_changes_after_it_have_no_gap_and_no_double(tmp_path: Path) -> None:
    table = kept(tmp_path / "table", 1).add(2)
    table.delta.delete("id = 1")
    spout = DeltaSpout(table.path, changes=True)
    assert flat(read_all(spout)) == [(2, "w2", "insert")]
    position = last_position(spout)
    table.delta.delete("id = 2")
    assert flat(read_all(spout, position)) == [(2, "w2", "delete")]
    latest = DeltaSpout(table.path, changes=True, startingVersion="latest")
    table.add(5)
    assert flat(read_all(latest)) == []
    assert flat(read_all(DeltaSpout(table.path, changes=True, startingVersion=4))) == [(5, "w2", "insert")]


def test_versions_from_before_the_feed_are_read_from_whole_files(tmp_path: Path) -> None:
    table = Table(tmp_path / "table").add(1, 2)
    table.delta.delete("id = 1")
    with pytest.raises(SpoutContractError, match=r"no change data feed, .*delta.enableChangeDataFeed = true"):
        _ = DeltaSpout(table.path, changes=True).schema
    with pytest.raises(SpoutContractError, match="no change data feed"):
        read_all(DeltaSpout(table.path, "id long", changes=True))
    table.delta.alter.set_table_properties(FEED)
    spout = DeltaSpout(table.path, "id long", changes=True, startingVersion="earliest")
    kinds = [("insert", 1), ("insert", 2), ("delete", 1), ("delete", 2), ("insert", 2)]
    assert [(kind, id) for id, kind in flat(read_all(spout))] == kinds
    position = last_position(spout)
    table.delta.alter.set_table_properties({"delta.enableChangeDataFeed": "false"})
    with pytest.raises(SpoutContractError, match="no change data feed"):
        read_all(spout, position)


@pytest.mark.parametrize("before", [False, True])
def test_a_stream_does_not_go_on_in_the_other_mode(before: bool, tmp_path: Path) -> None:
    table = kept(tmp_path / "table", 1)
    position = last_position(DeltaSpout(table.path, changes=before))
    table.add(2)
    with pytest.raises(SpoutContractError, match=rf"read with changes={before}, but .*changes={not before}.*anew=True"):
        read_all(DeltaSpout(table.path, changes=not before), position)


def test_the_fields_of_a_change(tmp_path: Path) -> None:
    table = kept(tmp_path / "table", 1)
    assert DeltaSpout(table.path, changes=True).schema.names == ["id", "word", "_change_type"]
    spout = DeltaSpout(table.path, "_change_type string, id long, _commit_version long", changes=True)
    assert flat(read_all(spout)) == [("insert", 1, 0)]
    with pytest.raises(SpoutContractError, match="'_commit_version' is declared as int: expected bigint"):
        DeltaSpout(table.path, "id long, _commit_version int", changes=True)
    with pytest.raises(TopologyError, match="onChange='skip' is for changes=False"):
        DeltaSpout(table.path, changes=True, onChange="skip")
    with pytest.raises(TopologyError, match="changes='yes'"):
        DeltaSpout(table.path, changes="yes")  # type: ignore[arg-type]


def test_a_version_with_change_files_needs_no_other_file(tmp_path: Path) -> None:
    """Read change files of a version with a deletion vector. Without change files such a version is refused."""
    table = kept(tmp_path / "table", 1, 2)
    position = last_position(DeltaSpout(table.path, changes=True))
    table.delta.delete("id = 1")
    actions = table.actions(1)
    for action in actions:
        if "add" in action:
            action["add"]["deletionVector"] = VECTOR
    write_actions(table, 1, actions)
    assert flat(read_all(DeltaSpout(table.path, changes=True), position)) == [(1, "w1", "delete")]
    write_actions(table, 1, [action for action in actions if "cdc" not in action])
    with pytest.raises(SourceUnreadableError, match="deletion vectors"):
        read_all(DeltaSpout(table.path, changes=True), position)


def test_a_removed_file_must_be_described_and_there(tmp_path: Path) -> None:
    table = kept(tmp_path / "table", 1, 2)
    position = last_position(DeltaSpout(table.path, changes=True))
    table.delta.delete()
    actions = table.actions(1)
    (removed,) = (action["remove"] for action in actions if "remove" in action)
    (table.path / removed["path"]).unlink()
    with pytest.raises(DataLossError, match="was removed before its rows were read, by VACUUM"):
        read_all(DeltaSpout(table.path, changes=True), position)
    del removed["size"]
    write_actions(table, 1, actions)
    with pytest.raises(SourceUnreadableError, match=r"the log has neither its size .*\(extendedFileMetadata\)"):
        read_all(DeltaSpout(table.path, changes=True), position)


def write_actions(table: Table, version: int, actions: list[Any]) -> None:
    table.commit(version).unlink()
    assert table.version == version - 1
    table.append_actions(*actions)
