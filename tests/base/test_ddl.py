"""Type declarations are read as Spark reads them, without a JVM."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from trident.base.ddl import SIMPLE
from trident.base.errors import DuplicateFieldError, FieldNotFoundError, TypeDeclarationError
from trident.base.spark_types import arrow_schema, ddl, parse_schema, parse_type, schema_of, select, spark_schema

# --- texts, spelled in many ways ---------------------------------------------------------------------------------

SPACE = st.sampled_from(["", " ", "  ", "\t", "\n"])
GAP = st.sampled_from([" ", "  ", "\t", " \n"])
WORD = st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,6}", fullmatch=True) | st.sampled_from(
    ["1a", "_1", "not", "null", "int", "array"]
)
QUOTED = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=6).map(
    lambda name: "`" + name.replace("`", "``") + "`"
)


@st.composite
def type_texts(draw: st.DrawFn, depth: int = 2) -> str:
    kinds = ["simple", "simple", "decimal"] + (["array", "map", "struct"] if depth else [])
    kind = draw(st.sampled_from(kinds))
    gap = lambda: draw(SPACE)  # noqa: E731
    if kind == "simple":
        word = draw(st.sampled_from(sorted(SIMPLE)))
        return draw(st.sampled_from([word, word.upper(), word.title()]))
    if kind == "decimal":
        name = draw(st.sampled_from(["decimal", "DEC", "Numeric"]))
        precision = draw(st.integers(1, 38))
        scale = draw(st.integers(0, precision))
        sizes = draw(
            st.sampled_from(["", f"{gap()}({gap()}{precision}{gap()})", f"({precision}{gap()},{gap()}{scale})"])
        )
        return name + sizes
    if kind == "array":
        return f"array{gap()}<{gap()}{draw(type_texts(depth - 1))}{gap()}>"
    if kind == "map":
        return f"MAP<{draw(type_texts(depth - 1))}{gap()},{gap()}{draw(type_texts(depth - 1))}>"
    return f"struct<{gap()}{draw(field_texts(depth - 1, 0))}{gap()}>"


@st.composite
def field_texts(draw: st.DrawFn, depth: int = 2, least: int = 1) -> str:
    texts = []
    names = draw(st.lists(WORD | QUOTED, min_size=least, max_size=3, unique_by=lambda name: name.strip("`").lower()))
    for name in names:
        colon = draw(SPACE) + ":" + draw(SPACE) if draw(st.booleans()) else draw(GAP)
        rest = draw(st.sampled_from(["", "", " NOT NULL", " not  null", " COMMENT 'a, b'", ' comment "it\'s"']))
        texts.append(f"{name}{colon}{draw(type_texts(depth))}{rest}")
    return f"{draw(SPACE)},{draw(SPACE)}".join(texts)


PIECES = st.sampled_from(
    ["a", "b", "`c d`", " ", " ", ",", ":", "<", ">", "(", ")", "5", "2", "int", "array", "map", "struct", "decimal",
     "string", "not", "null", "comment", "'x'", "1a", "1e3", "5L", "²", "-", "."]
)  # fmt: skip


def spark_reads(text: str) -> t.DataType | None:
    """Return the type that Spark reads; None if it refuses the text."""
    try:
        return t.DataType.fromDDL(text)
    except Exception as error:
        if "Parse" in type(error).__name__ or "PARSE" in str(error) or "DECIMAL" in str(error):
            return None
        raise


# --- against Spark -----------------------------------------------------------------------------------------------

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)


@pytest.mark.spark
def test_what_spark_reads_is_read_to_the_same_fields(spark: SparkSession) -> None:
    @QUICK
    @given(field_texts())
    def same(text: str) -> None:
        theirs = spark_reads(text)
        assert theirs is not None, f"the test's own text {text!r} is no DDL"
        assert parse_schema(text) == theirs

    same()


@pytest.mark.spark
def test_what_spark_reads_is_read_to_the_same_type(spark: SparkSession) -> None:
    @QUICK
    @given(type_texts())
    def same(text: str) -> None:
        assert parse_type(text) == spark_reads(text)

    same()


@st.composite
def damaged_texts(draw: st.DrawFn) -> str:
    """Draw a declaration with a few pieces inserted, removed or doubled. Some are still valid."""
    text = draw(field_texts())
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        to = draw(st.integers(at, min(len(text), at + 4)))
        text = text[:at] + draw(PIECES | st.just("") | st.just(text[at:to] * 2)) + text[to:]
    return text


@pytest.mark.spark
def test_what_spark_refuses_is_refused(spark: SparkSession) -> None:
    @settings(QUICK, max_examples=100)
    @given(st.lists(PIECES, min_size=1, max_size=9).map("".join) | damaged_texts())
    def refused_together(text: str) -> None:
        theirs = spark_reads(text)
        if not isinstance(theirs, t.StructType) or not theirs.names:
            return
        if '"name":""' in theirs.json():  # Spark takes a field without a name, which no verb could name
            return
        try:
            ours = parse_schema(text)
        except DuplicateFieldError:
            return
        assert ours == theirs

    @settings(QUICK, max_examples=100)
    @given(st.lists(PIECES, min_size=1, max_size=9).map("".join) | damaged_texts())
    def accepted_only_with_spark(text: str) -> None:
        try:
            ours = parse_schema(text)
        except (TypeDeclarationError, DuplicateFieldError):
            return
        assert spark_reads(text) == ours

    refused_together()
    accepted_only_with_spark()


# --- without Spark -----------------------------------------------------------------------------------------------


@given(field_texts())
@settings(max_examples=100, deadline=None)
def test_a_schema_written_as_ddl_is_read_back(text: str) -> None:
    schema = parse_schema(text)
    for field in schema.fields:
        field.metadata = {}
    assert parse_schema(ddl(schema)).simpleString() == schema.simpleString()
    assert spark_schema(arrow_schema(parse_schema("a long, b array<string>"))) == parse_schema(
        "a long, b array<string>"
    )


def test_letters_of_every_script_need_no_backticks_although_spark_wants_them() -> None:
    assert parse_schema("größe long").names == ["größe"]
    assert ddl(parse_schema("größe long")) == "`größe` bigint"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("word strng", "unknown type 'strng'; did you mean 'string'?"),
        ("word str", "'str' is Python's name; write the SQL type 'string'"),
        ("word varchar(10)", "a tuple's field cannot have the type 'varchar': write string"),
        ("n decimal(40,2)", "decimal(40,2) is out of range: a decimal has at most 38 digits"),
        ("n decimal(4,5)", "decimal(4,5) is out of range"),
        ("n decimal(x)", "expected a number, found 'x'"),
        ("word", "expected a type, found the end"),
        ("word string,", "expected a field name, found the end"),
        ("word string n long", "unexpected 'n'"),
        ("tags array<string", "expected '>', found the end"),
        ("1 int", "expected a field name, found '1'"),
        ("word string not", "expected NULL after NOT, found the end"),
        ("word string comment x", "expected a quoted text after COMMENT, found 'x'"),
        ("wo-rd string", "unexpected '-'"),
    ],
)
def test_a_text_that_is_no_declaration_says_where_it_breaks(text: str, reason: str) -> None:
    with pytest.raises(TypeDeclarationError) as raised:
        parse_schema(text)
    assert str(raised.value).startswith(f"cannot read the type declaration {text!r}: {reason}")
    assert "Write for example 'word string, n long'" in str(raised.value)


def test_a_name_that_comes_twice_is_refused_also_in_another_case() -> None:
    with pytest.raises(DuplicateFieldError, match=r"field 'a' is given twice in \(a, a\)"):
        parse_schema("a int, a long")
    with pytest.raises(DuplicateFieldError, match=r"Spark considers 'a' and 'A' the same field in \(a, A\)"):
        schema_of([t.StructField("a", t.LongType()), t.StructField("A", t.LongType())])


def test_selecting_a_field_that_is_not_there_lists_those_that_are() -> None:
    schema = parse_schema("word string, n long")
    assert select(schema, ["n"]).names == ["n"]
    with pytest.raises(
        FieldNotFoundError, match=r"no field 'wrod'; the fields are \(word string, n bigint\); did you mean 'word'\?"
    ):
        select(schema, ["wrod"])
