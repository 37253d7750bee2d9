"""CSV: the fast reader and the exact one agree, rows are found as RFC 4180 says, and a bad row is named."""

import csv
import datetime
import io
import math
import os
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.spouts.files.test_compressed import PACK
from tests.support.plans import planned
from trident import TumblingCountWindow
from trident.errors import ArgumentsError, MalformedInputError, TopologyError, TypeDeclarationError
from trident.spouts import Csv, FileSpout, Json, Parquet, Text, TransactionAttempt, Watch
from trident_spouts.files import line_reader, lines
from trident_spouts.files.csv_lines import CsvFormat
from trident_spouts.files.csv_rows import CsvOptions
from trident_spouts.files.json_lines import with_corrupt_fields
from trident_spouts.files.value_conversion import ValueReader
from trident_spouts.rows import read_schema

FIELDS = "n long, s string, x double, b boolean, day date, small tinyint, f float, d decimal(6, 2), at timestamp"


def form_of(fields: str, malformed: Any = "fail", values: ValueReader | None = None, **options: Any) -> CsvFormat:
    schema = read_schema(fields)
    schema = with_corrupt_fields(schema) if malformed == "keep" else schema
    return CsvFormat(schema, CsvOptions(**options), malformed, "strict", values or ValueReader())


def bound(form: CsvFormat, data: bytes, path: str = "f.csv") -> CsvFormat:
    return form.bind(lambda: data, path)


def parse(fields: str, text: str, malformed: Any = "fail", **options: Any) -> list[dict[str, Any]]:
    data = text.encode()
    form = bound(form_of(fields, malformed, **options), data)
    table = form.parse(data, "f.csv", 0)
    assert form.count(data, 0) == table.num_rows
    return table.to_pylist()  # type: ignore[no-any-return]


# --- two readers, one meaning -------------------------------------------------------------------------------------

CELLS = st.sampled_from(
    ["", "1", "-7", "007", "+5", "1.0", "1.5", "x", "true", "FALSE", "NA", "2024-02-29", "2024-02-30", "0001-01-01"]
    + ["nan", "-inf", "1e400", "1e3", ".5", "5.", " 1", "1_0", "0x1F", "127", "128", "9" * 19, "9007199254740993.0"]
    + ["é", "a,b", 'a"b', '"', '""', '"a"', '"a""b"', '"a"b', '"a', "a\\", '"a\\"b"', "'x'", "\r", "a\rb", '"a\rb"']
    + ["2024-01-01T00:00:00Z", "2024-01-01 00:00:00", "3.14159", "12.5", "0.1", "16777217", "1e-7", "٣"]
)
ROWS = st.lists(st.lists(CELLS, min_size=0, max_size=4), min_size=1, max_size=5)
SHAPES = st.sampled_from(["n long, s string", "s string", "s string, x double, n long NOT NULL", "b boolean, day date"])
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "multiLine": st.booleans(),
        "nullValue": st.sampled_from(["NA", "1"]),
        "quote": st.sampled_from(["'", ""]),
        "escape": st.just("\\"),
        "sep": st.sampled_from([";", "\t", "|"]),
    },
)


@settings(max_examples=400, deadline=None)
@given(
    rows=ROWS,
    newline=st.sampled_from(["\n", "\r\n"]),
    last=st.booleans(),
    shape=SHAPES,
    options=OPTIONS,
    lenient=st.booleans(),
)
def test_the_fast_reader_reads_only_what_the_exact_one_reads_and_the_same(
    rows: list[list[str]], newline: str, last: bool, shape: str, options: dict[str, Any], lenient: bool
) -> None:
    sep = options.get("sep", ",")
    data = (newline.join(sep.join(row) for row in rows) + (newline if last else "")).encode()
    form = bound(form_of(shape, values=ValueReader(lenient), header=False, **options), data)
    fast = form.read_at_once(data)
    if fast is None:
        return
    exact, _ = form.read_by_row(data, 0, "f.csv", 0)
    assert repr(fast.to_pylist()) == repr(exact.to_pylist())  # repr: nan is nan
    assert form.count(data, 0) == exact.num_rows


@settings(max_examples=200, deadline=None)
@given(
    rows=st.lists(st.lists(st.text("ab,\"'\n\r; é", max_size=5), min_size=2, max_size=2), min_size=1, max_size=5),
    sep=st.sampled_from([",", ";"]),
    newline=st.sampled_from(["\n", "\r\n"]),
    multi=st.booleans(),
)
def test_what_pythons_own_writer_writes_is_read_back(
    rows: list[list[str]], sep: str, newline: str, multi: bool
) -> None:
    if not multi:
        rows = [[cell.replace("\n", "").replace("\r", "") for cell in row] for row in rows]
    file = io.StringIO(newline="")
    csv.writer(file, delimiter=sep, lineterminator=newline, quoting=csv.QUOTE_ALL).writerows([["a", "b"], *rows])
    read = parse("b string, a string", file.getvalue(), sep=sep, multiLine=multi)
    assert read == [{"b": b, "a": a} for a, b in rows]


def test_the_fast_reader_takes_what_is_right() -> None:
    data = b'n,s,x\n1,cow,2.5\n,"a, ""b""",\n3,"",1e3\n'
    form = bound(form_of("n long, s string, x double"), data)
    table = form.read_at_once(data[6:])
    assert table is not None
    assert table.to_pylist() == [
        {"n": 1, "s": "cow", "x": 2.5},
        {"n": None, "s": 'a, "b"', "x": None},
        {"n": 3, "s": "", "x": 1000.0},
    ]


# --- meaning ------------------------------------------------------------------------------------------------------


def test_every_type_is_read_from_its_text() -> None:
    [row, nulls] = parse(
        f"{FIELDS}, local timestamp_ntz, raw binary",
        "n,s,x,b,day,small,f,d,at,local,raw\n"
        "7,cow,1e3,TRUE,2024-02-29,-128,0.1,12.50,2024-01-01T12:00:00+02:00,2024-01-01 12:00:00,AP8=\n"
        ",,,,,,,,,,\n",
    )
    assert row["at"] == datetime.datetime(2024, 1, 1, 10, tzinfo=datetime.UTC)
    assert row["local"] == datetime.datetime(2024, 1, 1, 12)
    assert (row["n"], row["s"], row["x"], row["b"]) == (7, "cow", 1000.0, True)
    assert (row["day"], row["small"], row["d"], row["raw"]) == (
        datetime.date(2024, 2, 29), -128, Decimal("12.50"), b"\x00\xff"
    )  # fmt: skip
    assert math.isclose(row["f"], 0.1, rel_tol=1e-6) and set(nulls.values()) == {None}


def test_what_is_null_and_what_is_empty() -> None:
    assert parse("s string, n long", 's,n\n,\n"",""\nNA,1\n"NA",2\n', nullValue="NA") == [
        {"s": "", "n": None},
        {"s": "", "n": None},
        {"s": None, "n": 1},
        {"s": "NA", "n": 2},
    ]
    assert parse("s string", 's\n""\n\nx\n') == [{"s": ""}, {"s": "x"}]


def test_columns_are_found_by_name_and_others_ignored() -> None:
    assert parse("b long, a string", "\ufeffa,other,b\r\nx,[1],2\r\n") == [{"b": 2, "a": "x"}]
    assert parse("b long, a string", "2,x\n", header=False) == [{"b": 2, "a": "x"}]
    assert parse("a string", "a,b,b\n1,2,3\n") == [{"a": "1"}]


def test_signs_may_be_others() -> None:
    assert parse("a string, b string", "a;b\n'x;''y''';\"\n", sep=";", quote="'") == [{"a": "x;'y'", "b": '"'}]
    assert parse("a string, b string", 'a\tb\n"x\n', sep="\t", quote="", malformed="keep")[0]["_corrupt"] == '"x'
    assert parse("a string", 'a\n"\n', quote="") == [{"a": '"'}]
    assert parse("a string, b string", 'a,b\n"x\\"y\\\\","\\n"\n', escape="\\") == [{"a": 'x"y\\', "b": "\\n"}]


def test_values_may_hold_newlines_where_that_is_said() -> None:
    text = 'a,b\n"x\ny",1\n"z",2\n'
    assert parse("a string, b long", text, multiLine=True) == [{"a": "x\ny", "b": 1}, {"a": "z", "b": 2}]
    with pytest.raises(MalformedInputError, match=r"f\.csv:2: the quotes of value 1 are not closed.*multiLine=True"):
        parse("a string, b long", text)


def test_lenient_numbers_are_whole_numbers_without_a_fraction() -> None:
    lenient = ValueReader(lenient=True)
    text = "n,small\n517.0,1.0\n1e3,\n-0.0,5\n"
    form = bound(form_of("n long, small tinyint", values=lenient), text.encode())
    assert form.parse(text.encode(), "f.csv", 0).to_pylist() == [
        {"n": 517, "small": 1}, {"n": 1000, "small": None}, {"n": 0, "small": 5}
    ]  # fmt: skip
    for bad in ("517.5", "9007199254740993.0", "1e400"):
        with pytest.raises(MalformedInputError, match=rf":2: field 'n': expected bigint, got '{bad}'; correct"):
            form.parse(f"n,small\n{bad},1\n".encode(), "f.csv", 0)


@pytest.mark.parametrize("text", ["NA", "nan", "NULL", "\\N"])
def test_a_text_that_means_null_elsewhere_is_told_with_the_option_that_reads_it(text: str) -> None:
    data = f"n\n{text}\n".encode()
    with pytest.raises(MalformedInputError) as raised:
        bound(form_of("n long"), data).parse(data, "f.csv", 0)
    assert f"got {text!r} (nullValue={text!r} reads it as null)" in str(raised.value)
    assert bound(form_of("n long", nullValue=text), data).parse(data, "f.csv", 0).to_pylist() == [{"n": None}]


def test_times_without_a_zone_get_the_one_that_is_given() -> None:
    data = b"at\n2024-07-01 12:00:00\n2024-07-01T12:00:00Z\n"
    form = bound(form_of("at timestamp", values=ValueReader(zone="Europe/Berlin")), data)
    assert [row["at"].hour for row in form.parse(data, "f.csv", 0).to_pylist()] == [10, 12]


# --- bad rows -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "row", "reason"),
    [
        ("n long", "x,1", "field 'n': expected bigint, got 'x'"),
        ("n long", "1.0,1", "field 'n': expected bigint, got '1.0' (numbers=\"lenient\" reads it)"),
        ("n tinyint", "300,1", "field 'n': expected tinyint, got '300'"),
        ("n long NOT NULL", ",1", "field 'n': null, but the field is NOT NULL"),
        ("n double", "1e400,1", "field 'n': expected double, got '1e400'"),
        ("n float", "1e39,1", "field 'n': expected float, got '1e39'"),
        ("n boolean", "1,1", "field 'n': expected boolean, got '1'"),
        ("n date", "2024-02-30,1", "field 'n': expected date, got '2024-02-30'"),
        (
            "n timestamp",
            "2024-01-01 00:00:00,1",
            "field 'n': expected timestamp, got '2024-01-01 00:00:00' (it has no time zone: declare timestamp_ntz, "
            "or set timeZone=)",
        ),
        ("n long", "1", "expected 2 values, got 1"),
        ("n long", "1,2,3", "expected 2 values, got 3"),
        ("n string", '"a,1', "the quotes of value 1 are not closed (values that hold newlines need multiLine=True)"),
        ("n string", '"a"b,1', "value 1 has more text after its closing quote"),
    ],
)
def test_a_row_that_cannot_be_read_is_named_or_kept(tmp_path: Path, fields: str, row: str, reason: str) -> None:
    path = tmp_path / "f.csv"
    path.write_text("n,m\n" + ",1\n" * ("NOT NULL" not in fields) + f"{row}\n,5\n")
    content = path.read_bytes()
    line = 2 + ("NOT NULL" not in fields)
    for offset in (0, content.index(f"\n{row}\n".encode()) + 1):  # from the beginning, and in the middle of the file
        with pytest.raises(MalformedInputError) as caught:
            bound(form_of(fields), content).parse(content[offset:], str(path), offset)
        assert str(caught.value) == (
            f'{path}:{line}: {reason}; correct the row, or read with Csv(malformed="keep") to have such rows in the '
            f"field _corrupt"
        )
    kept = parse(fields, f"n,m\n{row}\n", "keep")
    said = (None, None) if "NOT NULL" in fields else (row, reason)  # there a field may be null
    assert kept == [{"n": None, "_corrupt": said[0], "_corrupt_reason": said[1]}]


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("N,m", {}, r"f\.csv:1: the header has no field 'n'; did you mean 'N'\?; it has 'N', 'm': name the fields as"),
        (
            "n;m",
            {},
            r"f\.csv:1: the header has no field 'n'; it has 'n;m': if values are separated by ';', give sep=';'",
        ),
        ("1,2", {}, r"no field 'n'; it has '1', '2': .* or give header=False if the first row is data"),
        ("n,n", {}, r"f\.csv:1: the header has the field 'n' 2 times: 'n', 'n'"),
        ('"n', {}, r"f\.csv:1: the header cannot be read: the quotes of value 1 are not closed"),
    ],
)
@pytest.mark.parametrize("malformed", ["fail", "keep"])
def test_a_header_without_the_fields_is_an_error_in_any_case(
    header: str, options: dict[str, Any], message: str, malformed: Any
) -> None:
    with pytest.raises(MalformedInputError, match=message):
        parse("n long", f"{header}\n1,2\n", malformed, **options)


# --- as a spout ---------------------------------------------------------------------------------------------------


def read(spout: FileSpout) -> list[list[dict[str, Any]]]:
    return [spout.open().emit(TransactionAttempt(1, 0), plan).arrow().to_pylist() for plan in planned(spout)]


def test_ranges_begin_at_rows_and_know_the_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("m,n\n" + "".join(f"x,{n}\n" for n in range(50)))
    batches = read(FileSpout(tmp_path, "csv", "n long", maxBytesPerBatch=40))
    assert len(batches) > 5 and [row["n"] for batch in batches for row in batch] == list(range(50))


def test_a_file_may_grow_by_whole_rows_unless_values_may_hold_newlines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("n\n1\n")
    spout = FileSpout(tmp_path, "csv", "n long")
    [first] = planned(spout)
    with path.open("a") as file:
        file.write("2\n")
    [more] = planned(spout, previous=first)
    assert spout.open().emit(TransactionAttempt(2, 0), more).arrow().to_pylist() == [{"n": 2}]
    whole = FileSpout(tmp_path, Csv(multiLine=True), "n long", maxBytesPerBatch=1)
    [plan] = planned(whole)
    assert [file[3:5] for file in plan["files"]] == [[0, path.stat().st_size]]
    with path.open("a") as file:
        file.write("3\n")
    with pytest.raises(Exception, match=r"a file must not change after it was read\. To read"):
        planned(whole, previous=plan)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, TypeDeclarationError, 'format="csv" needs the fields'),
        (
            {"schema": "a array<int>"},
            TypeDeclarationError,
            r"format='csv' has no values of type array<int>, the type of",
        ),
        ({"sep": ";;"}, TopologyError, r"Csv: sep=';;': expected one ASCII character that is not a newline"),
        ({"quote": "é"}, TopologyError, r"quote='é': expected one .*, or .* if values are never quo"),
        ({"sep": '"'}, TopologyError, "sep='\"' is also the quote"),
        ({"header": "true"}, TopologyError, "header='true': expected True or False"),
        ({"skipLines": -1}, TopologyError, "Csv: skipLines=-1: expected a whole number of at least 0"),
        ({"skipLines": True}, TopologyError, "Csv: skipLines=True: expected a whole number of at least 0"),
        ({"skip_rows": 1}, ArgumentsError, "Csv: there is no option 'skip_rows'; .* did you mean 'skipLines'"),
        ({"nullValue": None}, TopologyError, "nullValue=None: expected a text, such as 'NA'"),
        ({"numbers": "loose"}, TopologyError, "numbers='loose' is not one of 'strict', 'lenient'"),
        ({"timeZone": "Mars"}, TopologyError, "timeZone='Mars': expected a zone's name, such as 'Europe/Berlin'"),
        ({"delimiter": ";"}, ArgumentsError, "Csv: there is no option 'delimiter'; .* did you mean 'sep'"),
    ],
)
def test_wrong_options_are_refused_when_the_spout_is_made(
    tmp_path: Path, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        FileSpout(tmp_path, Csv(**({"schema": "n long"} if options else {}) | options))


@pytest.mark.parametrize("make", [Json, Text, Parquet])
def test_an_option_of_another_format_is_refused(make: Any) -> None:
    """Under its name here and elsewhere."""
    for option in ("sep", "delimiter"):
        wrong = f"{make.__name__}: there is no option '{option}': it belongs to another format: Csv(sep=';')"
        with pytest.raises(ArgumentsError, match=re.escape(wrong)):
            make(**{option: ";"})


@pytest.mark.parametrize(
    ("make", "option", "message"),
    [
        (Text, "mode", "it belongs to other formats: Json and Csv have it"),
        (Parquet, "encodingErrors", "it belongs to other formats: Text, Json and Csv have it"),
        (TumblingCountWindow, "watermark", "it takes "),
    ],
)
def test_a_name_from_elsewhere_leads_to_no_option_that_the_call_lacks(make: Any, option: str, message: str) -> None:
    with pytest.raises(ArgumentsError, match=f"there is no option '{option}'.{{1,2}}{message}"):
        make(**{option: "x"})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sep": ";"}, "there is no option 'sep': it is an option of the format: FileSpout(path, Csv(sep=';'))"),
        ({"skiprows": 2}, "it is an option of the format: FileSpout(path, Csv(skipLines=2))"),
        ({"malformed": "keep"}, "FileSpout(path, Csv(malformed='keep')), or Json(malformed='keep')"),
        ({"encodingErrors": "replace"}, "FileSpout(path, Text(encodingErrors='replace')), or Json(...)"),
        ({"rememberedFiles": 5}, "it is an option of Watch: FileSpout(path, watch=Watch(rememberedFiles=5))"),
        ({"manifest": True}, "give a Manifest as the path: FileSpout(Manifest('files.txt'))"),
        ({"watch": 5}, "watch=5 (int): expected Watch(...), of trident.spouts"),
        ({"format": Csv}, "is not one of 'text', 'json', 'csv', 'parquet', or Text(), Json(), Csv(), Parquet()"),
        (
            {"format": Csv("a int"), "schema": "b int"},
            "schema='b int' and Csv('a int') both declare fields: give only one of them",
        ),
    ],
)
def test_an_option_in_the_wrong_place_is_refused_with_the_right_one(options: Any, message: str) -> None:
    with pytest.raises(TopologyError) as raised:
        FileSpout("/data", **options)
    assert message in str(raised.value)


def test_the_fields_may_be_given_to_the_format(tmp_path: Path) -> None:
    spout, other = FileSpout("/in", Csv("n long", sep=";")), FileSpout("/in", Csv(sep=";"), "n long")
    assert spout.schema == other.schema and spout.form == other.form
    assert repr(spout) == "FileSpout('/in', Csv('n long', sep=';'))"
    assert FileSpout("/in", "csv", "n long") == FileSpout("/in", Csv(), "n long")


def test_the_representation_shows_what_was_given() -> None:
    spout = FileSpout("/in", Csv(sep=";", numbers="lenient", timeZone="UTC"), "n long")
    assert repr(spout) == "FileSpout('/in', Csv(sep=';', numbers='lenient', timeZone='UTC'), 'n bigint')"


# --- lines before the header ----------------------------------------------------------------------------------------


def test_lines_before_the_header_are_not_read() -> None:
    text = 'by "hand\n\nn,s\n1,a\n'
    assert parse("n long", text, skipLines=2) == [{"n": 1}]
    assert parse("n long, s string", text, skipLines=3, header=False) == [{"n": 1, "s": "a"}]
    assert parse("n long", text, skipLines=4) == parse("n long", text, skipLines=9, header=False) == []
    assert parse("n long", "\ufefftitle\r\nn\r\n1\r\n", skipLines=1) == [{"n": 1}]
    assert parse("n string", 'a "title\nn\n"1\n2"\n', skipLines=1, multiLine=True) == [{"n": "1\n2"}]


@settings(max_examples=200, deadline=None)
@given(
    skipped=st.lists(st.sampled_from([b"", b"\r", b"a title", b'"', b"n,s", b"\xff"]), max_size=6),
    header=st.booleans(),
    rows=st.integers(0, 6),
    last=st.booleans(),
    cuts=st.lists(st.integers(0, 60), max_size=3),
    chunk=st.integers(1, 30),
    count=st.integers(1, 4),
)
def test_skipped_lines_are_no_rows_wherever_a_file_is_cut(
    tmp_path_factory: pytest.TempPathFactory,
    skipped: list[bytes],
    header: bool,
    rows: int,
    last: bool,
    cuts: list[int],
    chunk: int,
    count: int,
) -> None:
    """Into ranges of batches, shares of workers, and chunks of a reader."""
    lines_of_rows = [*([b"s,n"] if header else []), *(b"%d,%d" % (at, at) for at in range(rows))]
    data = b"\n".join([*skipped, *lines_of_rows]) + (b"\n" if last or not lines_of_rows else b"")
    path = tmp_path_factory.mktemp("cut") / "a.csv"
    path.write_bytes(data)
    file = io.BytesIO(data)
    ends = sorted({0, len(data), *(lines.line_start(file, cut, len(data)) for cut in cuts)})
    stretches = [line_reader.Stretch(str(path), at, to, at, to) for at, to in zip(ends, ends[1:], strict=False)]
    cut = line_reader.shares(stretches, count)
    form = form_of("n long", header=header, skipLines=len(skipped)) if header else form_of(
        "s long, n long", header=False, skipLines=len(skipped)
    )  # fmt: skip
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_CHUNK", chunk)
        for parts in (stretches, [part for share in cut for part in share]):
            tables = [table for part in parts for table in line_reader.read_stretch(part, form)]
            assert [n for table in tables for n in table["n"].to_pylist()] == [*range(rows)]
        counter = line_reader.ShareCounter((tuple(stretches), *map(tuple, cut)), form)
        numbers = pa.RecordBatch.from_pydict({"id": [*range(1 + len(cut))]})
        assert sum(sum(batch.column(0).to_pylist()) for batch in counter(iter([numbers]))) == 2 * rows


@pytest.mark.parametrize("suffix", ["", *PACK])
def test_skipped_lines_may_be_longer_than_a_chunk_and_need_not_be_utf8(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(lines, "_CHUNK", 20)
    content = b"M\xe4rz\n" * 50 + b"n\n" + b"".join(b"%d\n" % n for n in range(50))
    (tmp_path / f"a.csv{suffix}").write_bytes(PACK.get(suffix, bytes)(content))
    [batch] = read(FileSpout(tmp_path, Csv(skipLines=50), "n long"))
    assert [row["n"] for row in batch] == [*range(50)]


def test_a_file_may_grow_within_its_skipped_lines_and_a_replay_reads_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    spout = FileSpout(tmp_path, Csv(skipLines=2), "n long")
    plans: list[Any] = []

    def emitted() -> list[list[int]]:
        executor = spout.open()
        emissions = [executor.emit(TransactionAttempt(at, 0), plan) for at, plan in enumerate(plans, 1)]
        return [emission.arrow()["n"].to_pylist() for emission in emissions]

    for more in ("a title\n", "of 2024\n", "m,n\n", "x,1\nx,2\n", "x,3\n"):
        with path.open("a") as file:
            file.write(more)
        plans += planned(spout, previous=plans[-1] if plans else None)
        with path.open("a") as file:
            file.write("m")  # a writer is in the middle of a line, also of the header
        assert emitted() == [[], [], [], [1, 2], [3]][: len(plans)]
        os.truncate(path, path.stat().st_size - 1)
    assert len(plans) == 5


def test_errors_count_the_skipped_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a title\n\nn\n1\nx\n")
    with pytest.raises(MalformedInputError, match=rf"{path}:5: field 'n': expected bigint, got 'x'"):
        read(FileSpout(tmp_path, Csv(skipLines=2), "n long"))
    with pytest.raises(MalformedInputError, match=rf"{path}:2: the header has no field 'n'; it has '': line 3 names"):
        read(FileSpout(tmp_path, Csv(skipLines=1), "n long"))
    path.write_bytes(b"a title\nn\xff\n1\n")
    with pytest.raises(MalformedInputError, match="invalid UTF-8 at byte 9 "):
        read(FileSpout(tmp_path, Csv(skipLines=1), "n long"))


def test_a_title_over_several_lines_counts_as_so_many() -> None:
    with pytest.raises(MalformedInputError, match="line 3 names all fields: give skipLines=2"):
        parse("n long", '"a\ntitle"\nn\n1\n', multiLine=True)


@pytest.mark.parametrize(
    ("text", "way_out"),
    [
        ("a title\n\nn,s\n1,a\n", "line 3 names all fields: give skipLines=2"),
        ("a title\nn\n1,a\n", "name the fields as the header does, or give header=False if the first row is data"),
        ('a title\n"n\nn,n,s\n', "name the fields as the header does, or give header=False if the first row is data"),
        ("x\n" * 21 + "n,s\n", "name the fields as the header does, or give header=False if the first row is data"),
    ],
)
def test_a_title_before_the_header_is_told_with_the_option_that_skips_it(text: str, way_out: str) -> None:
    with pytest.raises(MalformedInputError) as raised:
        parse("s string, n long", text)
    assert str(raised.value).endswith(f": {way_out}")


# --- byte order marks -----------------------------------------------------------------------------------------------

MARK = b"\xef\xbb\xbf"


def test_a_byte_order_mark_within_a_file_is_part_of_a_value_wherever_the_file_is_cut(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(MARK + b"s,n\na,1\n" + MARK + b"b,2\n" + MARK + b"c,3\n")
    expected = [("a", 1), ("\ufeffb", 2), ("\ufeffc", 3)]
    for most in (1, 9, 1_000):
        spout = FileSpout(tmp_path, format="csv", schema="s string, n long", maxBytesPerBatch=most)
        assert [(row["s"], row["n"]) for batch in read(spout) for row in batch] == expected


def test_a_file_of_a_byte_order_mark_alone_is_empty(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(MARK)
    spout = FileSpout(tmp_path, format="csv", schema="s string, n long")
    assert read(spout) == [[]]
    [plan] = planned(spout)
    emission: Any = spout.open().emit(TransactionAttempt(1, 0), plan)
    assert sum(form.count(data, at) for form, at, data in lines_of(emission)) == 0


@pytest.mark.parametrize("form", ["csv", "json", "text"])
def test_a_file_that_begins_with_a_byte_order_mark_alone_may_grow(tmp_path: Path, form: str) -> None:
    content = {"csv": b"s,n\nabc,1\n", "json": b'{"s": "abc", "n": 1}\n', "text": b"abc\n"}[form]
    schema = {} if form == "text" else {"schema": "s string, n long"}
    at_once = FileSpout(tmp_path, format=form, **schema).open()
    patient = FileSpout(tmp_path, format=form, **schema, watch=Watch(completeAfterSecs="1 hour")).open()
    path = tmp_path / f"b.{form}"
    path.write_bytes(MARK)
    steps, position = grown(at_once, None)
    assert steps == [] and position is not None
    with path.open("ab") as file:
        file.write(content[:2])
    (tmp_path / f"a.{form}").write_bytes(content)  # is read while the other file has no whole line
    steps, position = grown(patient, position, path.stat().st_mtime + 1)
    assert steps == ["abc"]
    with path.open("ab") as file:
        file.write(content[2:])
    assert grown(at_once, position)[0] == ["abc"]


def grown(executor: Any, position: Any, time: float = 0.0) -> tuple[list[Any], Any]:
    """Return the first field of all rows after a position, and the position after them."""
    rows: list[Any] = []
    while (plan := executor.plan(TransactionAttempt(1, 0), position, time)) is not None:
        rows += executor.emit(TransactionAttempt(1, 0), plan).arrow().column(0).to_pylist()
        position = plan
    return rows, position


def lines_of(emission: Any) -> Any:
    return line_reader._lines_of(emission.stretches[0], emission.line_format)


def test_a_date_in_another_form_is_told_with_the_way_out() -> None:
    with pytest.raises(MalformedInputError, match=r"got 'Jan 5 2024' \(expected ISO 8601, .* declare a string"):
        parse("x long, day date", "x,day\n1,Jan 5 2024\n")
