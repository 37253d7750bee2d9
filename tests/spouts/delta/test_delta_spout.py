"""What a DeltaSpout reads: versions, snapshots, partitions, schemas, and how much of it in a batch."""

import datetime
import decimal
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import WriterProperties

from tests.spouts.delta.tables import Table, ids_of, last_position, read_all
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import SourceUnreadableError, SpoutContractError, TopologyError
from trident.files.delta_folder import folder_of
from trident.spouts import Budget, DeltaSpout, ReadSoFar
from trident.state import MemoryMapState
from trident.testing import crash_at, run_through
from trident_spouts.tables.data_files import DataFile, Part, read_part

VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 1,
}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    return Table(tmp_path / "table").add(1, 2).add(3).add(4, 5)


# --- where it begins, and how much a batch holds ------------------------------------------------------------------


def test_each_start_begins_where_it_says(table: Table) -> None:
    assert ids_of(read_all(DeltaSpout(table.path))) == [[1, 2, 3, 4, 5]]
    assert ids_of(read_all(DeltaSpout(table.path, startingVersion="earliest"))) == [[1, 2, 3, 4, 5]]
    assert ids_of(read_all(DeltaSpout(table.path, startingVersion=1))) == [[3, 4, 5]]
    assert ids_of(read_all(DeltaSpout(table.path, startingVersion=3))) == []
    with pytest.raises(
        TopologyError, match="startingVersion=4, but the table is at version 2; expected a version from"
    ):
        read_all(DeltaSpout(table.path, startingVersion=4))


def test_latest_keeps_its_place_in_an_empty_first_batch(table: Table) -> None:
    spout = DeltaSpout(table.path, startingVersion="latest")
    position = last_position(spout)
    assert position["from"] == position["to"] == [3, 0, False]
    table.add(6)
    assert ids_of(read_all(spout, position)) == [[6]]


def test_what_comes_after_a_snapshot_is_read_version_by_version(table: Table) -> None:
    spout = DeltaSpout(table.path)
    position = last_position(spout)
    assert read_all(spout, position) == []
    table.add(6).add(7)
    assert ids_of(read_all(spout, position)) == [[6, 7]]


@pytest.mark.parametrize("start", ["snapshot", "earliest"])
def test_batches_are_cut_between_files_also_within_a_version(table: Table, start: Any) -> None:
    table.add(*range(6, 15), partition_by=None)
    table.write(pa.table({"id": [20, 21, 22], "word": ["a", "b", "c"]}), target_file_size=1)
    one = ids_of(read_all(DeltaSpout(table.path, startingVersion=start, maxFilesPerBatch=1)))
    assert sorted(sum(one, [])) == [*range(1, 15), 20, 21, 22] and len(one) == len(table.delta.file_uris())
    assert len(read_all(DeltaSpout(table.path, startingVersion=start, maxBytesPerBatch=1))) == len(one)
    few = ids_of(read_all(DeltaSpout(table.path, startingVersion=start), budget=Budget(rows=3)))
    assert sorted(sum(few, [])) == sorted(sum(one, [])) and 1 < len(few) < len(one) + 1


def test_rows_that_only_move_to_other_files_are_not_read_again(table: Table) -> None:
    spout = DeltaSpout(table.path, startingVersion="earliest")
    position = last_position(spout)
    table.delta.optimize.compact()
    assert read_all(spout, position) == [[]], "an empty batch, which passes the version: its commit may be cleaned up"
    table.add(6)
    assert ids_of(read_all(spout, position)) == [[6]]
    assert ids_of(read_all(DeltaSpout(table.path, startingVersion="earliest"))) == [[1, 2, 3, 4, 5, 6]]
    assert ids_of(read_all(DeltaSpout(table.path))) == [[1, 2, 3, 4, 5, 6]]


def test_it_tells_how_far_the_versions_were_read(table: Table) -> None:
    executor = DeltaSpout(table.path, startingVersion="earliest", maxFilesPerBatch=1).open()
    assert executor.read_so_far(None) is None
    plan = executor.plan(TransactionAttempt(1, 0, 1), None, 0.0)
    assert executor.read_so_far(plan) == ReadSoFar(1, 3, "versions")
    assert executor.emit(TransactionAttempt(1, 0, 1), plan).rows == 2


def test_the_parts_of_a_file_together_are_the_file(tmp_path: Path) -> None:
    rows = pa.table({"id": range(1000), "word": ["w"] * 1000})
    table = Table(tmp_path / "table").write(rows, writer_properties=WriterProperties(max_row_group_size=37))
    (add,) = (action["add"] for action in table.actions(0) if "add" in action)
    file, folder = DataFile(add["path"], add["size"], 1000), folder_of(table.path, {})
    schema = DeltaSpout(table.path).schema
    for parts in (1, 2, 7, 40):
        read = [[*read_part(Part(file, number, parts), folder, schema)] for number in range(parts)]
        assert sorted(id for part in read for batch in part for id in batch.column(0).to_pylist()) == [*range(1000)]
        assert parts > 10 or all(read), "no part is empty while there are row groups enough"


# --- fields -------------------------------------------------------------------------------------------------------


def test_partition_columns_have_their_types_and_nulls(tmp_path: Path) -> None:
    zone = datetime.UTC
    rows = {
        "n": pa.array([1, 2, None], pa.int32()),
        "day": pa.array([datetime.date(2026, 1, 2), None, datetime.date(1999, 12, 31)]),
        "at": pa.array([datetime.datetime(2026, 1, 2, 3, 4, 5, 6, zone)] * 3, pa.timestamp("us", "UTC")),
        "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25")]),
        "name": pa.array(["a b/c=d%", "ü", None]),
        "yes": pa.array([True, False, None]),
        "id": pa.array([1, 2, 3], pa.int64()),
    }
    table = Table(tmp_path / "table").write(pa.table(rows), partition_by=["n", "day", "at", "price", "name", "yes"])
    expected = sorted(pa.table(rows).to_pylist(), key=lambda row: row["id"])
    for start in ("snapshot", "earliest"):
        spout = DeltaSpout(table.path, startingVersion=start)  # type: ignore[arg-type]
        names = spout.schema.names
        came = [dict(zip(names, row, strict=True)) for row in read_all(spout)[0]]
        assert sorted(came, key=lambda row: row["id"]) == [{name: row[name] for name in names} for row in expected]
    only = DeltaSpout(table.path, "day date")
    assert sorted(map(str, read_all(only)[0])) == [
        "(None,)",
        "(datetime.date(1999, 12, 31),)",
        "(datetime.date(2026, 1, 2),)",
    ]


def test_a_field_that_was_added_is_null_in_older_rows(table: Table) -> None:
    running = DeltaSpout(table.path)
    position = last_position(running)
    more = pa.table({"id": [6], "word": ["w"], "n": pa.array([7], pa.int64())})
    table.write(more, schema_mode="merge")
    assert read_all(running, position) == [[(6, "w")]], "a running topology keeps its fields"
    anew = DeltaSpout(table.path, startingVersion="earliest")
    assert anew.schema.names == ["id", "word", "n"]
    assert {row[0]: row[2] for row in read_all(anew)[0]} == {1: None, 2: None, 3: None, 4: None, 5: None, 6: 7}


def test_fields_that_the_table_has_not_are_refused(table: Table) -> None:
    with pytest.raises(
        SpoutContractError, match=r"DeltaSpout: .*/table: the table has no field 'wrod'; it has \(id bigi"
    ):
        read_all(DeltaSpout(table.path, "wrod string"))
    with pytest.raises(
        SpoutContractError, match="the table has 'id' as bigint, the topology reads it as int; restart the program"
    ):
        read_all(DeltaSpout(table.path, "id int"))


def test_a_type_that_changes_under_way_is_refused(table: Table) -> None:
    spout = DeltaSpout(table.path)
    executor = spout.open()
    position = executor.plan(TransactionAttempt(1, 0, 1), None, 0.0)
    metadata = next(action for action in table.actions(0) if "metaData" in action)
    metadata["metaData"]["schemaString"] = metadata["metaData"]["schemaString"].replace('"long"', '"string"')
    table.append_actions(metadata)
    with pytest.raises(
        SpoutContractError, match=r"table, version 3: the table has 'id' as string, the topology reads it"
    ):
        executor.plan(TransactionAttempt(2, 0, 1), position, 0.0)


# --- what it cannot read --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("protocol", "message"),
    [
        (
            {"minReaderVersion": 3, "readerFeatures": ["typeWidening"]},
            "does not read: typeWidening. Drop them from the",
        ),
        ({"minReaderVersion": 9}, "does not read: reader version 9"),
    ],
)
def test_unknown_features_are_refused_by_name(table: Table, protocol: dict[str, Any], message: str) -> None:
    spout = DeltaSpout(table.path)
    executor = spout.open()
    position = executor.plan(TransactionAttempt(1, 0, 1), None, 0.0)
    table.append_actions({"protocol": {"minWriterVersion": 7, "writerFeatures": [], **protocol}})
    with pytest.raises(
        SourceUnreadableError, match=f"table, version 3: the table has features that DeltaSpout {message}"
    ):
        executor.plan(TransactionAttempt(2, 0, 1), position, 0.0)


def test_deletion_vectors_mapped_columns_and_shallow_clones_are_refused(table: Table) -> None:
    add = next(action for action in table.actions(2) if "add" in action)["add"]
    position = last_position(DeltaSpout(table.path))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"add": add | {"deletionVector": VECTOR}}, "version 3 has data files with deletion vectors, which DeltaSpout"),
        (
            {"add": add | {"path": "s3://other/part.parquet"}},
            "data file s3://other/part.parquet is outside the table",
        ),
        ({"metaData": {"configuration": {"delta.columnMapping.mode": "name"}}}, r"read: columnMapping \(mode name\)"),
    ]
    for action, message in cases:
        executor = DeltaSpout(table.path).open()
        assert executor.plan(TransactionAttempt(2, 0, 1), position, 0.0) is None
        table.append_actions(action)
        with pytest.raises(SourceUnreadableError, match=message):
            executor.plan(TransactionAttempt(2, 0, 1), position, 0.0)
        table.commit(3).unlink()


def test_what_is_no_table_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceUnreadableError, match=f"DeltaSpout: {re.escape(str(tmp_path))}: there is no Delta table"):
        read_all(DeltaSpout(tmp_path, "id long"))


def test_wrong_arguments_are_refused(tmp_path: Path) -> None:
    wrong: Any = [
        ({"path": 7}, r"DeltaSpout: path=7 \(int\): expected the folder or address of a table"),
        (
            {"startingVersion": "first"},
            "startingVersion='first': expected a whole number of at least 0, or 'snapshot', 'e",
        ),
        ({"startingVersion": -1}, "startingVersion=-1: expected a whole number of at least 0, or 'snapshot'"),
        ({"onChange": "ignore"}, "onChange='ignore' is not one of 'fail', 'skip'"),
        ({"maxFilesPerBatch": 0}, "maxFilesPerBatch=0: expected a whole number of at least 1"),
        ({"storageOptions": {"a": 1}}, "storageOptions: expected a mapping of strings to strings"),
    ]
    for options, message in wrong:
        with pytest.raises(TopologyError, match=message):
            DeltaSpout(**{"path": tmp_path, **options})


def test_a_repr_shows_no_secret() -> None:
    spout = DeltaSpout("s3://lake/orders", "id long", storageOptions={"AWS_SECRET_ACCESS_KEY": "hush"})
    assert repr(spout) == ("DeltaSpout('s3://lake/orders', 'id bigint', storageOptions={'AWS_SECRET_ACCESS_KEY': ...})")
    with pytest.raises(TopologyError, match="AWS_SECRET='env:NOT_SET': the environment variable NOT_SET is not set"):
        read_all(DeltaSpout("s3://lake/orders", "id long", storageOptions={"AWS_SECRET": "env:NOT_SET"}))


def test_a_secret_is_read_without_the_newline_at_its_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LAKE_KEY", "key\n")
    (tmp_path / "secret").write_text("hush\n")
    options = {"AWS_ACCESS_KEY_ID": "env:LAKE_KEY", "AWS_SECRET_ACCESS_KEY": f"file:{tmp_path / 'secret'}"}
    read = folder_of("s3://lake/orders", options).storage_options
    assert read == {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hush"}


# --- in a topology --------------------------------------------------------------------------------------------------


def test_counts_are_exact_while_a_writer_appends_and_drivers_die(table: Table, tmp_path: Path) -> None:
    topology = TridentTopology()
    words = topology.newStream("words", DeltaSpout(table.path, maxFilesPerBatch=1)).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    folder = tmp_path / "log"
    with crash_at("freeze.after", 2), run_through(topology, checkpointLocation=folder) as running:
        assert dict(running.state("counts").items()) == {"w1": 2, "w2": 2, "w0": 1}
    table.add(6).add(7)
    table.delta.optimize.compact()
    table.add(8)
    with crash_at("emit.after", 2), run_through(topology, checkpointLocation=folder) as running:
        assert dict(running.state("counts").items()) == {"w1": 3, "w2": 3, "w0": 2}
        assert running.readSoFar["words"].lag == 0
