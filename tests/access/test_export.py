"""A state as a file."""

import json
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.access.small_topologies import counted, counting, fixed
from trident import Sum, TridentTopology, openState
from trident.access.export import export_state
from trident.errors import StateError
from trident.state import MemoryMapState


@pytest.mark.parametrize("form", ["parquet", "csv", "jsonl"])
def test_all_of_a_state_is_in_the_file(tmp_path: Path, form: str) -> None:
    counted(counting(fixed(["a", "b"], ["a"])), checkpointLocation=tmp_path)
    file = tmp_path / f"counts.{form}"
    with openState("wc", "counts", tmp_path) as counts:
        export_state(counts, file)
        with pytest.raises(StateError, match="exists; use --overwrite to replace it"):
            export_state(counts, file)
        export_state(counts, file, replace=True)
    read = {"parquet": pd.read_parquet, "csv": pd.read_csv, "jsonl": lambda path: pd.read_json(path, lines=True)}
    frame = read[form](file)
    assert dict(zip(frame["word"], frame["value"], strict=True)) == {"a": 2, "b": 1}
    if form == "parquet":
        assert pq.read_schema(file).metadata[b"asOfTxid"] == b"2"
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_binary_is_base64_in_text(tmp_path: Path, form: str) -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", fixed([(b"\xff\x00", 2)], [(b"\x01", 1)], fields="k binary, n long"))
    rows.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
    counted(topology, checkpointLocation=tmp_path)
    with openState("wc", "sums", tmp_path) as sums:
        export_state(sums, tmp_path / f"sums.{form}")
    lines = (tmp_path / f"sums.{form}").read_text().splitlines()
    told = {
        "csv": {'"k","value"', '"/wA=",2', '"AQ==",1'},
        "jsonl": {'{"k": "/wA=", "value": 2}', '{"k": "AQ==", "value": 1}'},
    }
    assert set(lines) == told[form]


def test_what_a_format_cannot_hold_leaves_no_file(tmp_path: Path) -> None:
    topology = TridentTopology()
    rows = topology.newStream("rows", fixed([({"a": 1}, 2)], fields="k struct<a: int>, n long"))
    rows.groupBy("k").persistentAggregate(MemoryMapState.opaque(), "n", Sum(), "sum", name="sums")
    counted(topology, checkpointLocation=tmp_path)
    with openState("wc", "sums", tmp_path) as sums:
        with pytest.raises(StateError, match="state 'sums' cannot be written to .*csv"):
            export_state(sums, tmp_path / "sums.csv")
        with pytest.raises(StateError, match="unknown format .*; expected parquet, csv, jsonl"):
            export_state(sums, tmp_path / "sums.xls")
        with pytest.raises(StateError, match="there is no folder .* to write sums.parquet to"):
            export_state(sums, tmp_path / "no" / "sums.parquet")
        export_state(sums, tmp_path / "sums.txt", "jsonl")
    assert json.loads((tmp_path / "sums.txt").read_text()) == {"k": {"a": 1}, "value": 2}
    assert {path.name for path in tmp_path.iterdir()} == {"wc", "sums.txt"}
