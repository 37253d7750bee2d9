"""Errors for tables and batches that Delta refuses or cannot take now. The batch is kept for the next start."""

import json
import multiprocessing
import os
import resource
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.outputs.delta.outlets import outlet, rows, sink_of
from trident import TridentTopology
from trident.base.attempt import Lease
from trident.base.errors import FencedError
from trident.errors import (
    BatchFailedError,
    LogError,
    MissingPackageError,
    OutputConflictError,
    OutputRefusedError,
    OutputUnavailableError,
)
from trident.files import delta_folder
from trident.outputs.delta import outlet as delta_outlet
from trident.outputs.run_identity import RunIdentity
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local

V = pa.schema([("v", pa.int64())])
FEED = {"delta.enableChangeDataFeed": "true"}
TABLES: list[tuple[pa.Schema, dict[str, Any], str, dict[str, Any], str]] = [
    (V, {}, "v long, w long", {}, r"the table has no column 'w'; it has \(v bigint\). Add the column, rename"),
    (V, {}, "V long", {}, "the table has no column 'V'.*did you mean 'v'"),
    (pa.schema([("v", pa.int32())]), {}, "v long", {}, "field 'v' is bigint, and the column is int: cast the field"),
    (
        pa.schema([*V, pa.field("w", pa.int64(), nullable=False)]), {}, "v long", {},
        "the table has the column 'w', which is NOT NULL, and the stream has no such field",
    ),
    (
        pa.schema([*V, ("w", pa.string())]), {"partition_by": ["w"]}, "v long, w string", {},
        r"the table is partitioned by \(w\), and the output says partitionBy=\[\]: write partitionBy=\['w'\]",
    ),
    (V, {}, "v long", {"partitions": ("v",)}, r"the table is not partitioned, .*: write leave partitionBy= out"),
    (V, {"configuration": {"delta.appendOnly": "true"}}, "v long", {"key": ("v",)}, "the table is append-only"),
    (
        pa.schema([*V, ("_change_type", pa.string())]), {"configuration": FEED}, "v long, _change_type string", {},
        "keeps a change data feed, which has a column '_change_type' of its own",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("columns", "made", "fields", "target", "says"), TABLES)
def test_a_table_that_does_not_fit(
    tmp_path: Path, columns: pa.Schema, made: dict[str, Any], fields: str, target: dict[str, Any], says: str
) -> None:
    DeltaTable.create(str(tmp_path / "t"), columns, **made)
    with pytest.raises(OutputRefusedError, match=says) as raised:
        outlet(tmp_path / "t", fields, **target)
    assert str(raised.value).startswith(f"s/1:writeDelta: {tmp_path}/t: ")
    assert DeltaTable(str(tmp_path / "t")).version() == 0


def test_a_table_that_is_altered_under_a_driver(tmp_path: Path) -> None:
    """A narrower column would round the values; a column that must have a value would get none."""
    made, wide = outlet(tmp_path / "t", "v double"), pa.table({"v": [0.1]})
    made.take(wide, 1)
    narrow = pa.table({"v": pa.array([1.5], pa.float32())})
    write_deltalake(str(tmp_path / "t"), narrow, mode="overwrite", schema_mode="overwrite")
    with pytest.raises(OutputRefusedError, match="field 'v' is double, and the column is float"):
        made.take(wide, 2)
    write_deltalake(str(tmp_path / "t"), wide, mode="overwrite", schema_mode="overwrite")
    made.take(pa.table({"v": [0.2]}), 2)
    assert sorted(rows(tmp_path / "t")) == [(0.1,), (0.2,)]


@pytest.mark.parametrize("key", [(), ("v",)])
def test_a_table_that_is_altered_while_a_batch_is_written(
    tmp_path: Path, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made, wide = outlet(tmp_path / "t", "v double", key=key), pa.table({"v": [0.1]})
    write = made._writer.write

    def late(*args: Any) -> None:
        narrow = pa.table({"v": pa.array([1.5], pa.float32())})
        write_deltalake(str(tmp_path / "t"), narrow, mode="overwrite", schema_mode="overwrite")
        write(*args)

    monkeypatch.setattr(made._writer, "write", late)
    with pytest.raises(OutputUnavailableError, match="another writer changed the table meanwhile"):
        made.take(wide, 1)
    assert rows(tmp_path / "t") == [(1.5,)]


@pytest.mark.parametrize(
    ("column", "configuration", "says"),
    [
        ({"delta.generationExpression": "1"}, {}, "Delta computes the values of the column 'v'"),
        ({"delta.identity.start": 1}, {}, "Delta computes the values of the column 'v'"),
        ({}, {"delta.columnMapping.mode": "name"}, "the table has mapped columns"),
    ],
)
def test_a_table_of_another_writer_with_features_that_are_not_written(
    tmp_path: Path, column: dict[str, Any], configuration: dict[str, str], says: str
) -> None:
    place = str(tmp_path / "t")
    DeltaTable.create(place, V)
    commit = tmp_path / "t" / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][0]["metadata"].update(column)
    metadata["schemaString"] = json.dumps(schema)
    metadata["configuration"].update(configuration)
    commit.write_text("\n".join(map(json.dumps, actions)))
    with pytest.raises(OutputRefusedError, match=says):
        outlet(place, "v long")


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").touch()
    with pytest.raises(OutputConflictError, match=r"has no Delta table, but other files \(a.parquet\): name an empty"):
        outlet(tmp_path, "v long")
    assert os.listdir(tmp_path) == ["a.parquet"]


def test_a_topology_under_another_name_is_warned_of_rows_that_come_twice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def warned(topology: str, output: str | None = None, table: str = "t", **options: Any) -> list[str]:
        caplog.clear()
        program = TridentTopology()
        words = program.newStream("words", FixedBatchSpout("word string", [["dog"]]))
        words.writeDelta(tmp_path / table, name=output, **options)
        with start_local(program, name=topology, checkpointLocation=tmp_path / "checkpoint") as running:
            running.processAllAvailable(timeout=20)
        return [record.getMessage() for record in caplog.records if "has the rows of output" in record.getMessage()]

    assert warned("first") == []
    (warning,) = warned("second")
    assert "has the rows of output 'words.writeDelta' of topology 'first' up to its batch 1. If" in warning
    assert warned("second") == warned("third", "others") == []
    assert warned("fourth", table="keyed", key="word") == warned("fifth", table="keyed", key="word") == []


def test_a_table_with_rows_and_other_columns_keeps_them(tmp_path: Path) -> None:
    columns = pa.schema([("more", pa.int16()), *V, ("w", pa.string())])
    before = pa.table({"more": [1, 2], "v": [1, 2], "w": ["a", "b"]}, schema=columns)
    write_deltalake(str(tmp_path / "t"), before)
    outlet(tmp_path / "t", "w string, v long", key=("v",)).take(pa.table({"w": ["x", "y"], "v": [2, 3]}), 1)
    made = outlet(tmp_path / "t", "w string, v long", name="other")
    made.take(pa.table({"w": ["z"], "v": [1]}), 1)
    assert sorted(rows(tmp_path / "t", "v", "w", "more"), key=repr) == [
        (1, "a", 1), (1, "z", None), (2, "x", 2), (3, "y", None),
    ]  # fmt: skip


@pytest.mark.parametrize("key", [(), ("v",)])
@pytest.mark.parametrize("how", ["required", "constraint"])
def test_a_row_that_the_table_refuses_stops_the_run_and_the_batch_is_kept(
    tmp_path: Path, key: tuple[str, ...], how: str
) -> None:
    place = str(tmp_path / "t")
    table = DeltaTable.create(place, pa.schema([*V, pa.field("w", pa.int64(), nullable=how == "constraint")]))
    if how == "constraint":
        table.alter.add_constraint({"small": "w < 5"})
    made = TridentTopology()
    bad = (2, None if how == "required" else 7)
    spout = FixedBatchSpout("v long, w long", [[(1, 1)], [bad, (3, 3)], [(4, 4)]])
    made.newStream("s", spout).writeDelta(place, key=key or None)
    with (
        pytest.raises(OutputRefusedError, match="refuses batch 2: .*The batch stays frozen, and the next start"),
        start_local(made, checkpointLocation=tmp_path / "c") as running,
    ):
        running.processAllAvailable(timeout=60)
    assert rows(place) == [(1, 1)]
    if how == "constraint":
        table.update_incremental()
        table.alter.drop_constraint("small")
    else:
        may_be_null = pa.table({"v": [1], "w": [1]})
        write_deltalake(place, may_be_null, mode="overwrite", schema_mode="overwrite")
    with start_local(made, checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    assert sorted(rows(place)) == [(1, 1), bad, (3, 3), (4, 4)]


@pytest.mark.parametrize("count", [1, 3000])
@pytest.mark.parametrize(
    ("text", "says"), [("", "an empty text"), ("__HIVE_DEFAULT_PARTITION__", "the text '__HIVE_DEFAULT_PARTITION__'")]
)
def test_an_empty_text_that_would_name_a_folder_fails_its_batch_before_it_is_frozen(
    tmp_path: Path, text: str, says: str, count: int
) -> None:
    made = TridentTopology()
    spout = FixedBatchSpout("g string, v long", [[("a", 1), *[(text, 3)] * count]])
    made.newStream("s", spout).writeDelta(tmp_path / "t", partitionBy="g")
    with (
        pytest.raises(BatchFailedError, match=f"writeDelta.*field 'g' is {says}, which Delta cannot disti"),
        start_local(made, checkpointLocation=tmp_path / "c", maxAttempts=1) as running,
    ):
        running.processAllAvailable(timeout=60)
    assert rows(tmp_path / "t") == []


@pytest.mark.parametrize("count", [1, 3000])
def test_a_text_that_is_too_long_for_a_folder_fails_its_batch_before_it_is_frozen(tmp_path: Path, count: int) -> None:
    made = TridentTopology()
    spout = FixedBatchSpout("g string, v long", [[("ü" * 25, 1)] * count, [("ü" * 26, 2)] * count])
    made.newStream("s", spout).writeDelta(tmp_path / "t", partitionBy="g")
    with (
        pytest.raises(BatchFailedError, match=r"writeDelta.*field 'g' has a text of 26 characters, which is too long"),
        start_local(made, checkpointLocation=tmp_path / "c", maxAttempts=1, maxSpoutPending=1) as running,
    ):
        running.processAllAvailable(timeout=60)
    assert rows(tmp_path / "t") == [("ü" * 25, 1)] * count


def test_values_that_name_folders_come_back(tmp_path: Path) -> None:
    fields = "g string, d date, b boolean, n int, v long"
    values = [
        ("a b/ü%", date(1, 1, 1), True, -1, 1),
        (None, None, None, None, 2),
        (" ", date(9999, 12, 31), False, 7, 3),
    ]
    made = TridentTopology()
    partitions = ["g", "d", "b", "n"]
    made.newStream("s", FixedBatchSpout(fields, [values])).writeDelta(tmp_path / "t", partitionBy=partitions)
    with start_local(made, checkpointLocation=tmp_path / "c") as running:
        running.processAllAvailable(timeout=60)
    assert sorted(rows(tmp_path / "t", *partitions, "v"), key=lambda row: row[-1]) == values
    assert DeltaTable(str(tmp_path / "t")).metadata().partition_columns == partitions


@pytest.mark.skipif(os.getuid() == 0 and not Path("/proc/self").exists(), reason="there is no folder to refuse root")
def test_a_folder_that_cannot_be_written_is_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in (tmp_path / "file" / "t", "/proc/t"):
        with pytest.raises(OutputUnavailableError, match="Could not create local directory"):
            outlet(place, "v long")


def fill(place: Path, key: tuple[str, ...], told: Any) -> None:
    """Write a batch in a process whose files must be small, as on a full disk, and then without this limit."""
    made = outlet(place, "v long, s string", key=key)
    batch = pa.table({"v": range(5000), "s": [os.urandom(20).hex() for _ in range(5000)]})
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, hard))
    try:
        made.take(batch, 1)
    except Exception as error:
        told.send((type(error).__name__, str(error)))
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    made.take(batch, 1)
    told.send(len(rows(place)))


@pytest.mark.parametrize("key", [(), ("v",)])
def test_a_full_disk_is_waited_for(tmp_path: Path, key: tuple[str, ...]) -> None:
    forks: Any = multiprocessing.get_context("forkserver")
    told, other = forks.Pipe()
    child = forks.Process(target=fill, args=(tmp_path / "t", key, other))
    child.start()
    kind, said = told.recv()
    assert kind == "OutputUnavailableError" and said.endswith("batch 1 is written again, unless it is there")
    assert told.recv() == 5000
    child.join(60)


@pytest.mark.parametrize("key", [(), ("v",)])
def test_a_driver_that_is_replaced_while_it_writes_adds_nothing(
    tmp_path: Path, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The later driver takes the output after this one has read the record, and before its version is made."""
    made = outlet(tmp_path / "t", "v long", key=key)
    write = made._writer.write

    def late(*args: Any) -> None:
        outlet(tmp_path / "t", "v long", epoch=2, key=key)
        write(*args)

    monkeypatch.setattr(made._writer, "write", late)
    with pytest.raises(OutputUnavailableError, match="another writer changed the table meanwhile"):
        made.take(pa.table({"v": [1]}), 1)
    with pytest.raises(FencedError):
        made.take(pa.table({"v": [1]}), 1)
    assert rows(tmp_path / "t") == []


@pytest.mark.parametrize("key", [(), ("v",)])
def test_a_version_whose_answer_was_lost(tmp_path: Path, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    made = outlet(tmp_path / "t", "v long", key=key)
    write = made._writer.write

    def losing(*args: Any) -> None:
        write(*args)
        raise OSError("the answer was lost")

    monkeypatch.setattr(made._writer, "write", losing)
    with pytest.raises(OutputUnavailableError, match="the answer was lost; batch 1 is written again, unless it is"):
        made.take(pa.table({"v": [1]}), 1)
    monkeypatch.setattr(made._writer, "write", write)
    made.take(pa.table({"v": [1]}), 1)
    made.take(pa.table({"v": [2]}), 2)
    assert sorted(rows(tmp_path / "t")) == [(1,), (2,)]


@pytest.mark.parametrize("key", [(), ("v",)])
def test_another_writer_beside_the_output(
    tmp_path: Path, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of another writer that come meanwhile stay. A merge has not seen them, so it is written again."""
    made = outlet(tmp_path / "t", "v long", key=key)
    write = made._writer.write

    def beside(*args: Any) -> None:
        write_deltalake(str(tmp_path / "t"), pa.table({"v": [9]}), mode="append")
        write(*args)

    monkeypatch.setattr(made._writer, "write", beside)
    if key:
        with pytest.raises(OutputUnavailableError, match="another writer changed the table meanwhile"):
            made.take(pa.table({"v": [1]}), 1)
        monkeypatch.setattr(made._writer, "write", write)
    made.take(pa.table({"v": [1]}), 1)
    assert sorted(rows(tmp_path / "t")) == [(1,), (9,)]


@pytest.mark.parametrize("restart", [False, True])
@pytest.mark.parametrize("beside", [False, True])
def test_a_table_that_delta_restored_is_told(tmp_path: Path, restart: bool, beside: bool) -> None:
    """RESTORE takes the rows back, and leaves the record."""
    made = outlet(tmp_path / "t", "v long")
    made.take(pa.table({"v": [1]}), 1)
    version = DeltaTable(str(tmp_path / "t")).version()
    made.take(pa.table({"v": [2]}), 2)
    DeltaTable(str(tmp_path / "t")).restore(version)
    if beside:
        write_deltalake(str(tmp_path / "t"), pa.table({"v": [9]}), mode="append")
    with pytest.raises(OutputConflictError, match="version 3 of the table restored an older version, which may"):
        (outlet(tmp_path / "t", "v long", epoch=2, last_frozen=2) if restart else made).take(pa.table({"v": [3]}), 3)


def test_a_table_that_is_gone_under_a_driver_is_told(tmp_path: Path) -> None:
    made = outlet(tmp_path / "t", "v long")
    (tmp_path / "t").rename(tmp_path / "away")
    with pytest.raises(OutputConflictError, match="was deleted while the topology was running"):
        made.take(pa.table({"v": [1]}), 1)


def test_a_record_of_another_format_is_refused(tmp_path: Path) -> None:
    from deltalake import CommitProperties, Transaction

    outlet(tmp_path / "t", "v long")
    newer = CommitProperties(app_transactions=[Transaction("trident/topology/out:format", 99)])
    write_deltalake(str(tmp_path / "t"), V.empty_table(), mode="append", commit_properties=newer)
    with pytest.raises(OutputConflictError, match="has the format 99, and this version of the library reads only"):
        outlet(tmp_path / "t", "v long")


def test_the_record_comes_back_after_a_checkpoint(tmp_path: Path) -> None:
    """Delta cleans its log up, and keeps the record in a checkpoint."""
    token, place = "f" * 36, tmp_path / "t"
    run = RunIdentity("topology", "0" * 36, 3, 1, token)
    made = delta_outlet.DeltaOutlet(sink_of(place, "v long"), run, lambda r: [r])
    made.take(pa.table({"v": [1]}), 1)
    DeltaTable(str(place)).create_checkpoint()
    write_deltalake(str(place), pa.table({"v": [0]}), mode="append")
    for version in range(2):
        (place / "_delta_log" / f"{version:020}.json").unlink()
    record = made._record.read(DeltaTable(str(place)))
    assert record is not None and record.txid == 1 and record.log == "0" * 36 and record.lease == Lease(3, token)
    again = delta_outlet.DeltaOutlet(made._sink, run, lambda r: [r])
    again.take(pa.table({"v": [1]}), 1)
    again.take(pa.table({"v": [2]}), 2)
    assert sorted(rows(place)) == [(0,), (1,), (2,)]


@pytest.mark.parametrize("key", [(), ("v",)])
def test_frozen_rows_that_cannot_be_read_are_their_own_error(
    tmp_path: Path, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = outlet(tmp_path / "t", "v long", key=key)
    calls = []

    def read(result: Any) -> Any:
        calls.append(1)
        if len(calls) == 2:
            raise LogError("the file is damaged")
        return [result]

    monkeypatch.setattr(made, "_read", read)
    with pytest.raises(LogError, match="the file is damaged"):
        made.take(pa.table({"v": [1]}), 1)
    made.take(pa.table({"v": [1]}), 1)
    assert rows(tmp_path / "t") == [(1,)]


def test_a_setting_that_replaces_versions_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_S3_ALLOW_UNSAFE_RENAME", "true")
    with pytest.raises(OutputRefusedError, match="the variable AWS_S3_ALLOW_UNSAFE_RENAME is set, and then two write"):
        outlet(tmp_path / "t", "v long")


def test_the_package_is_named_if_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(module: str, extra: str, need: str) -> Any:
        raise MissingPackageError(need)

    monkeypatch.setattr(delta_folder, "optional_package", missing)
    with pytest.raises(MissingPackageError, match="writeDelta needs the package deltalake"):
        outlet(tmp_path / "t", "v long")
