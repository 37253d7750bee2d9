"""JSON lines: the fast reader and the exact one agree, and a bad line is named."""

import datetime
import gzip
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trident.base.spark_types import arrow_schema
from trident.errors import MalformedInputError
from trident.spouts import FileSpout, Json, TransactionAttempt
from trident_spouts.files.json_lines import JsonFormat, read_stretch_at_once, with_corrupt_fields
from trident_spouts.files.value_conversion import ValueReader
from trident_spouts.rows import read_schema

FIELDS = read_schema(
    "n long, small tinyint, x double, s string, b boolean, a array<long>, o struct<k: string, v: long>, "
    "d decimal(20, 2), day date, raw binary"
)
TARGET = arrow_schema(FIELDS)

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.integers(-200, 200)
    | st.floats(allow_nan=True)
    | st.text(max_size=5)
    | st.sampled_from(["1.5", "2024-02-29", "2024-02-30", "AP8=", "1e2"])
    | st.lists(st.none() | st.integers(-3, 3) | st.text(max_size=2), max_size=3)
    | st.dictionaries(st.sampled_from(["k", "v", "w"]), st.none() | st.integers(0, 5) | st.text(max_size=2), max_size=3)
)
OBJECTS = st.dictionaries(st.sampled_from([*FIELDS.names, "other"]), VALUES, max_size=8)
LINES = st.one_of(
    OBJECTS.map(json.dumps),
    OBJECTS.map(lambda found: json.dumps(found, ensure_ascii=False)),
    st.sampled_from(
        ["", "  ", "[1]", "3", "null", "{", '{"n": 1} {"n": 2}', '{"n": 1}x', '{"n": 1, "n": 2}', '{"n": 1.0}', "{}"]
        + ['{"n": 01}', '{"x": 1e999}', '{"x": 5}', '{"s": "\\ud800"}', '{"s": 5}', '{"n": "5"}', '{"n": 1e3}', '"x"']
        + [
            '{"n": -0}',
            '{"x": -0.0}',
            '{"x": 1E400}',
            '{"s": "a\\u0000b"}',
            '{"n":1,}',
            "{'n':1}",
            '{"b": 1}',
            "\t{}\t",
        ]
    ),
)


def exactly(data: bytes) -> pa.Table | None:
    """Return the tuples that the exact reader makes of these lines; None if it refuses one."""
    try:
        return JsonFormat(FIELDS, "fail", "strict").read_by_line(data, TARGET, "f.json", 0)[0]
    except MalformedInputError:
        return None


@given(st.lists(LINES.filter(lambda line: "\n" not in line and "\r" not in line), min_size=1, max_size=4))
def test_the_fast_reader_reads_only_what_the_exact_one_reads_and_the_same(lines: list[str]) -> None:
    try:
        data = "\n".join(lines).encode()
    except UnicodeEncodeError:
        return
    table = read_stretch_at_once(data, TARGET)
    if table is not None:
        expected = exactly(data)
        assert expected is not None
        assert repr(table.to_pylist()) == repr(expected.to_pylist())  # repr: nan is nan


def test_the_fast_reader_takes_what_is_right() -> None:
    data = b'{"n": 1, "x": 2.5, "s": "cow", "a": [1, null], "o": {"k": "a", "v": 2}}\n\n{"b": true, "other": {}}\n'
    table = read_stretch_at_once(data, TARGET)
    assert table is not None
    assert table.column("s").to_pylist() == ["cow", None]


def parse(fields: str, text: str, malformed: Any = "fail") -> pa.Table:
    schema = read_schema(fields)
    form = JsonFormat(with_corrupt_fields(schema) if malformed == "keep" else schema, malformed, "strict")
    table = form.parse(text.encode(), "f.json", 0)
    assert form.count(text.encode(), 0) == table.num_rows
    return table


def test_types_without_a_json_form_are_read_from_their_text() -> None:
    table = parse(
        "d decimal(20, 2), at timestamp, local timestamp_ntz, day date, raw binary, m map<string, decimal(3, 1)>",
        '{"d": 12345678901234567.89, "at": "2024-01-01T12:00:00+02:00", "local": "2024-01-01 12:00:00", '
        '"day": "2024-02-29", "raw": "AP8=", "m": {"k": 1.5}}\n{"d": "1.5", "at": "2024-01-01T00:00:00Z"}\n',
    )
    first, second = table.to_pylist()
    assert first["d"] == Decimal("12345678901234567.89")
    assert first["at"] == datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC)
    assert first["local"] == datetime.datetime(2024, 1, 1, 12)
    assert (first["day"], first["raw"]) == (datetime.date(2024, 2, 29), b"\x00\xff")
    assert dict(first["m"]) == {"k": Decimal("1.5")}
    assert (second["d"], second["day"]) == (Decimal("1.50"), None)


@pytest.mark.parametrize(
    ("fields", "line", "said"),
    [
        ("n long", '{"n": 1', "expected a JSON object: Expecting ',' delimiter at column 8"),
        ("n long", "\u00a0", "expected a JSON object: Expecting value at column 1"),
        (
            "n long",
            "[1, 2]",
            "expected a JSON object, got [1, 2] (expected one object per line; Json(multiLine=True) reads a file "
            "that is one array or one object)",
        ),
        ("n long", '{"n": NaN}', "expected a JSON object: NaN is not a JSON value"),
        ("n long", '{"n": "5"}', 'field \'n\': expected bigint, got "5" (numbers="lenient" reads it)'),
        ("n long", '{"n": 1.0}', "field 'n': expected bigint, got 1.0 (numbers=\"lenient\" reads it)"),
        ("n tinyint", '{"n": 300}', "field 'n': expected tinyint, got 300"),
        ("n long NOT NULL", '{"m": 5}', "field 'n': null, but the field is NOT NULL"),
        ("s string", '{"s": 5}', "field 's': expected string, got 5"),
        ("day date", '{"day": "2024-02-30"}', "field 'day': expected date, got \"2024-02-30\""),
        (
            "at timestamp",
            '{"at": "2024-01-01T00:00:00"}',
            "field 'at': expected timestamp, got \"2024-01-01T00:00:00\" (it has no time zone: declare "
            "timestamp_ntz, or set timeZone=)",
        ),
        ("d decimal(3, 1)", '{"d": 1.25}', "field 'd': expected decimal(3,1), got 1.25"),
        ("raw binary", '{"raw": "?"}', "field 'raw': expected binary, got \"?\""),
        ("o struct<k: long>", '{"o": {"k": "x"}}', 'field \'o\': expected struct<k:bigint>, got {"k": "x"}'),
    ],
)
def test_a_malformed_line_is_named_with_file_line_and_reason(tmp_path: Path, fields: str, line: str, said: str) -> None:
    path = tmp_path / "events.json"
    path.write_text('{"n": 1, "day": null}\n' * 3 + line + "\n")
    content = path.read_bytes()
    offset = content.index(b"\n") + 1
    with pytest.raises(MalformedInputError) as caught:
        JsonFormat(read_schema(fields), "fail", "strict").parse(content[offset:], str(path), offset)
    assert str(caught.value) == (
        f'{path}:4: {said}; correct the line, or read with Json(malformed="keep") to have such lines in the field '
        f"_corrupt"
    )


def test_malformed_lines_may_be_kept_in_a_field_of_their_own() -> None:
    table = parse("n long NOT NULL", '{"n": 1}\nnonsense\n{"n": "x"}\n', "keep")
    assert table.to_pylist() == [
        {"n": 1, "_corrupt": None, "_corrupt_reason": None},
        {
            "n": None,
            "_corrupt": "nonsense",
            "_corrupt_reason": "expected a JSON object: Expecting value at column 1",
        },
        {"n": None, "_corrupt": '{"n": "x"}', "_corrupt_reason": "field 'n': expected bigint, got \"x\""},
    ]
    good = {"n": 1, "_corrupt": None, "_corrupt_reason": None}
    assert parse("n long", '{"n": 1}\n', "keep").to_pylist() == [good]


def test_the_reason_is_the_same_wherever_the_line_stands(tmp_path: Path) -> None:
    """A replay may find the folder elsewhere, and another cut of the file, and must give the same tuples."""
    form = JsonFormat(with_corrupt_fields(read_schema("n long")), "keep", "strict")
    found = {
        form.parse(data, path, offset).column("_corrupt_reason")[-1].as_py()
        for data, path, offset in [(b"x\n", "a/f", 0), (b'{"n": 1}\nx\n', "b/f", 0), (b"x\n", "b/f", 9)]
    }
    assert found == {"expected a JSON object: Expecting value at column 1"}


# --- lenient numbers ----------------------------------------------------------------------------------------------

LENIENT = ValueReader(lenient=True)


@given(st.lists(LINES.filter(lambda line: "\n" not in line and "\r" not in line), min_size=1, max_size=4))
def test_the_two_readers_are_lenient_alike(lines: list[str]) -> None:
    try:
        data = "\n".join(lines).encode()
    except UnicodeEncodeError:
        return
    table = read_stretch_at_once(data, TARGET, LENIENT)
    if table is not None:
        exact, _ = JsonFormat(FIELDS, "fail", "strict", values=LENIENT).read_by_line(data, TARGET, "f.json", 0)
        assert repr(table.to_pylist()) == repr(exact.to_pylist())


@pytest.mark.parametrize("by_line", [False, True])
def test_numbers_may_be_written_as_other_programs_write_them(by_line: bool) -> None:
    target = arrow_schema(read_schema("n long, x double, a array<int>, m map<string, long>, small tinyint"))
    data = b'{"n": 517.0, "x": "5.5", "a": [1.0, "2", null], "m": {"k": 1e3}, "small": "7"}\n{"n": -0.0, "x": 5}\n'
    read = JsonFormat(read_schema("n long"), "fail", "strict", values=LENIENT).read_by_line
    table = read(data, target, "f", 0)[0] if by_line else read_stretch_at_once(data, target, LENIENT)
    assert table is not None
    first, second = table.to_pylist()
    assert (first["n"], first["x"], first["a"], dict(first["m"]), first["small"]) == (
        517,
        5.5,
        [1, 2, None],
        {"k": 1000},
        7,
    )
    assert (second["n"], second["x"]) == (0, 5.0)


@pytest.mark.parametrize(
    "number",
    ["1.5", '"1.5"', "9007199254740993.0", '"9007199254740993.0"', "1e300", "true", '"x"', '""', '" 1"', "1e19"],
)
def test_what_is_no_whole_number_is_none_for_the_lenient_reader_too(number: str) -> None:
    data = f'{{"n": {number}}}'.encode()
    target = arrow_schema(read_schema("n long"))
    assert read_stretch_at_once(data, target, LENIENT) is None
    with pytest.raises(MalformedInputError, match=r"f:1: field 'n': expected bigint, got .*; correct the line"):
        JsonFormat(read_schema("n long"), "fail", "strict", values=LENIENT).read_by_line(data, target, "f", 0)


# --- what a library forgives ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "value"),
    [("double", "1e400"), ("double", "-1e400"), ("float", "1e400"), ("float", "-1e39"), ("array<double>", "[1, 1e400]")]
    + [("struct<x: double>", '{"x": 1e400}'), ("map<string, double>", '{"x": 1e400}')],
)
def test_a_number_beyond_its_field_is_malformed_and_never_infinite(kind: str, value: str) -> None:
    fields = read_schema(f"v {kind}")
    with pytest.raises(MalformedInputError, match=r"f.json:2: field 'v': expected .*, got "):
        JsonFormat(fields, "fail", "strict").parse(b'{"v": null}\n{"v": ' + value.encode() + b"}\n", "f.json", 0)
    kept = JsonFormat(with_corrupt_fields(fields), "keep", "strict")
    assert kept.parse(b'{"v": ' + value.encode() + b"}\n", "f.json", 0)["v"].to_pylist() == [None]


def test_the_greatest_float_is_read() -> None:
    """A number that is nearer to it than to the next power of two is rounded to it, as in any float."""
    data = b'{"v": 3.4028235677973362e38}\n'
    assert JsonFormat(read_schema("v float"), "fail", "strict").parse(data, "f.json", 0)["v"].to_pylist() == [
        3.4028234663852886e38
    ]


def test_a_number_beyond_a_double_is_shown_as_it_is_written() -> None:
    with pytest.raises(MalformedInputError, match="field 'v': expected double, got 1e400; correct the line"):
        JsonFormat(read_schema("v double"), "fail", "strict").parse(b'{"v": 1e400}\n', "f.json", 0)


@pytest.mark.parametrize("offset", [0, 100])
def test_a_byte_order_mark_is_left_out_where_a_file_begins_and_malformed_within_it(offset: int) -> None:
    form = JsonFormat(read_schema("n long"), "keep", "strict")
    kept = JsonFormat(with_corrupt_fields(read_schema("n long")), "keep", "strict")
    data = b'\xef\xbb\xbf{"n": 1}\n\xef\xbb\xbf{"n": 2}\n'
    table = kept.parse(data, "f.json", offset)
    assert table["n"].to_pylist() == ([1, None] if offset == 0 else [None, None])
    assert "a byte order mark inside a file: several files were joined" in table["_corrupt_reason"].to_pylist()[1]
    assert form.count(data, offset) == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[{"t": 1},\n {"t": 2}]\n', r"one object per line; Json\(multiLine=True\) reads a file that is one array"),
        ('[\n {"t": 1}\n]\n', r"one object per line; Json\(multiLine=True\) reads a file that is one array"),
        ('{\n "t": 1\n}\n', r"one object per line; Json\(multiLine=True\) reads a file that is one array"),
    ],
)
def test_a_file_that_is_one_value_is_told_with_the_way_out(text: str, said: str) -> None:
    with pytest.raises(MalformedInputError, match=f"f.json:1: expected a JSON object.*{said}"):
        JsonFormat(read_schema("t long"), "fail", "strict").parse(text.encode(), "f.json", 0)


def test_a_date_in_another_form_is_told_with_the_way_out() -> None:
    with pytest.raises(MalformedInputError, match=r"got \"Jan 5 2024\" \(expected ISO 8601, .* declare a string"):
        JsonFormat(read_schema("d date"), "fail", "strict").parse(b'{"d": "Jan 5 2024"}\n', "f.json", 0)


@pytest.mark.parametrize(("field", "hint"), [("userid", "did you mean 'userId'"), ("user_id", "userId")])
@pytest.mark.parametrize("suffix", ["json", "json.gz"])
def test_a_field_that_none_of_the_first_lines_has_is_warned_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, field: str, hint: str, suffix: str
) -> None:
    data = b'\n{"userId": "a", "n": 1}\nbad\n{"userId": "b"}\n'
    (tmp_path / f"x.{suffix}").write_bytes(gzip.compress(data) if suffix == "json.gz" else data)
    schema = f"{field} string, n long"
    executor = FileSpout(tmp_path, format=Json(malformed="keep"), schema=schema, maxFilesPerBatch=1).open()
    plan = executor.plan(TransactionAttempt(1, 0), None, 0.0)
    for _ in range(2):
        executor.emit(TransactionAttempt(1, 0), plan)
    [record] = caplog.records
    assert f"x.{suffix} has the field {field!r}, which is read as null there; the lines have 'userId', 'n'" in (
        record.getMessage()
    )
    assert hint in record.getMessage()
