"""Files that are one JSON document each: an array of objects, or one object."""

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spouts.files.test_compressed import PACK
from trident import Count, TridentTopology
from trident.base.attempt import TransactionAttempt
from trident.errors import MalformedInputError, TopologyError
from trident.spouts import FileSpout, Json
from trident.state import MemoryMapState
from trident.testing.local import start_local
from trident_spouts.files import json_documents
from trident_spouts.files.json_documents import JsonDocuments
from trident_spouts.files.json_lines import JsonFormat, with_corrupt_fields
from trident_spouts.rows import read_schema

FIELDS = "n long, word string"


def parse(text: str, malformed: Any = "fail", fields: str = FIELDS) -> list[dict[str, Any]]:
    schema = read_schema(fields)
    form = JsonDocuments(with_corrupt_fields(schema) if malformed == "keep" else schema, malformed, "strict")
    found = form.parse(text.encode(), "f.json", 0)
    assert form.count(text.encode(), 0) == found.num_rows
    return list(found.to_pylist())


@given(
    st.lists(st.dictionaries(st.sampled_from(["n", "word", "other"]), st.integers(-5, 5) | st.text() | st.none())),
    st.sampled_from([None, 2, "\t"]),
    st.booleans(),
)
@settings(max_examples=30, deadline=None)
def test_an_array_is_read_as_its_objects_are_line_by_line(rows: list[Any], indent: Any, ascii_only: bool) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    form = JsonFormat(with_corrupt_fields(read_schema(FIELDS)), "keep", "strict")
    expected = form.parse(lines.encode(), "f.json", 0).to_pylist()
    found = parse(json.dumps(rows, indent=indent, ensure_ascii=ascii_only), "keep")
    for row, line in zip(found, expected, strict=True):
        assert (row["_corrupt"] is None) == (line["_corrupt"] is None)
        assert {**row, "_corrupt": None} == {**line, "_corrupt": None}


@pytest.mark.parametrize("where", ["word", "other"])
def test_half_of_a_surrogate_pair_makes_one_element_unreadable_and_no_other(where: str) -> None:
    bad = f'{{"n": 1, "{where}": "\\ud800, ]"}}'
    found = parse(f'[{bad} , {{"n": 2}},\n {{"n": 3}}]', "keep")
    (line,) = (
        JsonFormat(with_corrupt_fields(read_schema(FIELDS)), "keep", "strict")
        .parse(f"{bad}\n".encode(), "f.json", 0)
        .to_pylist()
    )
    assert [row["n"] for row in found[1:]] == [2, 3] and all(row["_corrupt"] is None for row in found[1:])
    assert (found[0]["n"], found[0]["_corrupt"] is None) == (line["n"], line["_corrupt"] is None)
    if where == "word":
        with pytest.raises(MalformedInputError, match=r"f.json, element 1: field 'word': expected string"):
            parse(f"[{bad}]")


def test_forms_of_a_document() -> None:
    assert parse('\ufeff[\n {"n": 1},\n {"n": 2, "word": "x\\ny"}\n]\n') == [
        {"n": 1, "word": None},
        {"n": 2, "word": "x\ny"},
    ]
    assert parse('{\n "n": 1\n}') == [{"n": 1, "word": None}]
    assert parse("[]") == []
    (exact,) = parse('[{"n": 12345678901234567.8901}]', fields="n decimal(30, 4)")
    assert str(exact["n"]) == "12345678901234567.8901"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[{"n": 1},\n{"n": "x"}]', "f.json, element 2: field 'n': expected bigint, got \"x\"; correct the file, or"),
        ('[{"n": 1},\n 5]', "f.json, element 2: expected a JSON object, got 5; correct"),
        ('[{"n": 1},\n null]', "f.json, element 2: expected a JSON object, got null;"),
        ("[[1]]", "f.json, element 1: expected a JSON object, got [1];"),
        ('[{"n": 1},\n{"n"', "f.json: expected a JSON document: Expecting ':' delimiter at line 2, column 5;"),
        ('[{"n": 1}]\n[{"n": 2}]', "f.json: expected a JSON document: Extra data at line 2, column 1;"),
        ('{"n": 1}\n{"n": 2}', "f.json: expected a JSON document: Extra data at line 2, column 1;"),
        ("  \n", "f.json: expected a JSON document: Expecting value at line 1, column 1;"),
        ("5", "f.json: expected a JSON object, got 5;"),
        ("[" * 100_000, "f.json: expected a JSON document: "),
        ('[{"n": NaN}]', "f.json, element 1: expected a JSON object: NaN is not a JSON value;"),
    ],
)
def test_damaged_documents(text: str, says: str) -> None:
    with pytest.raises(MalformedInputError) as raised:
        parse(text)
    assert says in str(raised.value)
    assert "one object per line" not in str(raised.value)


def test_damaged_parts_are_kept_with_their_texts() -> None:
    rows = parse('[{"n": 1}, {"n":  "x"}, 5]', "keep")
    assert [(row["n"], row["_corrupt"]) for row in rows] == [(1, None), (None, '{"n":  "x"}'), (None, "5")]
    (row,) = parse('[{"n": 1}, {"n"', "keep")
    assert row["_corrupt"] == '[{"n": 1}, {"n"'
    assert row["_corrupt_reason"] == "expected a JSON document: Expecting ':' delimiter at line 1, column 16"


def test_a_document_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trident_spouts.files.executor.LONGEST_DOCUMENT", 20)
    monkeypatch.setattr(json_documents, "LONGEST_DOCUMENT", 20)
    assert parse('[{"n": 1}]') == [{"n": 1, "word": None}]
    with pytest.raises(MalformedInputError, match="has at most 20: write one object per line"):
        parse('[{"n": 1}, {"n": 2}]  ')
    (tmp_path / "a.json").write_text('[{"n": 1}, {"n": 2}]  ')
    executor = FileSpout(tmp_path, Json(FIELDS, multiLine=True)).open()
    attempt = TransactionAttempt(1, 0)
    with pytest.raises(MalformedInputError, match=r"a\.json has 22 bytes, but a file that is one JSON document"):
        executor.emit(attempt, executor.plan(attempt, None, 0.0))


def test_a_small_file_that_unpacks_to_a_long_document_is_not_unpacked_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(json_documents, "LONGEST_DOCUMENT", 1 << 20)
    monkeypatch.setattr(JsonDocuments, "longest", 1 << 20)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b"[" + b" " * (200 << 20), compresslevel=1))
    executor = FileSpout(tmp_path, Json(FIELDS, multiLine=True)).open()
    attempt = TransactionAttempt(1, 0)
    emission = executor.emit(attempt, executor.plan(attempt, None, 0.0))
    tracemalloc.start()
    with pytest.raises(
        MalformedInputError, match=r"a\.json\.gz has more bytes when it is unpacked, but a file that is"
    ):
        emission.arrow()
    assert tracemalloc.get_traced_memory()[1] < 50 << 20
    tracemalloc.stop()


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_topology_reads_whole_files(tmp_path: Path, suffix: str) -> None:
    for name in range(3):
        rows = [{"n": number, "word": "ab"[number % 2]} for number in range(name * 10, name * 10 + 10)]
        (tmp_path / f"{name}.json{suffix}").write_bytes(PACK.get(suffix, bytes)(json.dumps(rows, indent=1).encode()))
    topology = TridentTopology()
    spout = FileSpout(tmp_path, Json(FIELDS, multiLine=True), maxBytesPerBatch=50)
    words = topology.newStream("s", spout).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "n", name="counts")
    with start_local(topology, name="t", checkpointLocation=tmp_path / "ckpt") as running:
        running.processAllAvailable(timeout=20)
        assert dict(running.state("counts").items()) == {"a": 15, "b": 15}


def test_wrong_values() -> None:
    with pytest.raises(TopologyError, match="Json: multiLine="):
        Json(FIELDS, multiLine="yes")  # type: ignore[arg-type]
