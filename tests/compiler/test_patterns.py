"""Regular expressions: what is read, and what is refused with the way out. `test_forms.py` compares the engines."""

import datetime
import re

import pytest
from pyspark.sql import SparkSession

from tests.compiler.stage_runner import OnArrow, OnSpark, Slots, leaving, stream
from trident import TridentTopology, col
from trident import functions as F
from trident.errors import TopologyError
from trident.expressions.portable_regex import BadPattern, java_template, pattern_of, template_of


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("[a", "a class contains"),
        ("[]a]", "a class contains"),
        ("[a&&b]", "a class contains"),
        ("[a[b]]", "a class contains"),
        ("[z-a]", "is empty"),
        ("[a-[]", "written with a backslash"),
        ("(a", "there is no )"),
        ("a)", "there is no ("),
        ("*a", "nothing to repeat before"),
        ("a**", "follows a repetition"),
        ("a*+", "follows a repetition"),
        ("^*", "cannot be repeated"),
        ("(a*)*", "can match the empty string"),
        ("a{,3}", "begins a number"),
        ("a{3,1}", "not a number of repetitions"),
        ("a{1001}", "not a number of repetitions"),
        (r"\p{L}", "no meaning"),
        (r"(a)\1", "no meaning"),
        (r"\ud83d", "surrogate"),
        ("(?>a)", "a group begins"),
        ("a(?i)b", "a group begins"),
        ("(?m)^a", "the flag 'm'"),
        ("(?<=a*)b", "fixed length"),
        ("(?<!(?:b|a){2})c", "Java cannot compute the length of a repeated group with | in a lookbehind"),
        ("(?<=x(?:(?:b|a){1}y){2})c", "Java cannot compute the length"),
        (r"(?<=(?:\ba){2})c", "Java cannot compute the length"),
        ("(?!([^a]))a", "write (?:...)"),
        ("(?<!(?<name>a))b", "write (?:...)"),
        ("(?!(?=(?:b(a))))b", "write (?:...)"),
        ("(?=([^é])b)a|c", "write (?:...)"),
        ("(?<=([^a]))b", "write (?:...)"),
        ("a\\", "no meaning"),
    ],
)
def test_a_pattern_without_one_meaning_is_refused(pattern: str, reason: str) -> None:
    with pytest.raises(BadPattern, match=re.escape(reason)):
        pattern_of(pattern)
    with pytest.raises(TopologyError, match="A Python function can use any pattern of Python"):
        F.rlike("line", pattern)


def test_what_may_match_nothing_neither_splits_nor_is_replaced() -> None:
    for refused in (lambda: F.split("t", " *"), lambda: F.regexp_replace("t", "a|", "b")):
        with pytest.raises(TopologyError, match="can match the empty text"):
            refused()


def test_other_arguments_are_refused() -> None:
    for refused, words in (
        (lambda: F.regexp_extract("t", "(a)", 2), "expected 0 to 1"),
        (lambda: F.regexp_replace("t", "a", "$1"), "the pattern has 0 groups"),
        (lambda: F.regexp_replace("t", "a", "$x"), "the number of a group"),
        (lambda: F.regexp_replace("t", "a", "b\\"), "a single backslash"),
        (lambda: F.rlike("t", 3), "the pattern is a text"),  # type: ignore[arg-type]
        (lambda: F.sha2("t", 100), "224, 256, 384, 512"),
        (lambda: F.from_utc_timestamp("t", "EST"), "a zone's name"),
    ):
        with pytest.raises(TopologyError, match=words):
            refused()


def test_digits_behind_a_group_belong_to_it_if_there_is_such_a_group() -> None:
    assert template_of("$12", 1) == (1, "2")
    assert template_of("$12", 12) == (12,)
    assert java_template(template_of("$12", 1)) == "$1\\2"


def test_a_line_of_a_log_is_taken_apart(engine: Slots) -> None:
    lines = [("GET /shop?id=7 took 12 ms\n",), ("POST /cart took x",), ("  GET /a\n",), (None,)]
    parts = stream(TridentTopology(), "line string", lines).map(
        {
            "path": F.regexp_extract("line", r"(GET|POST) ([^ ?\n]+)", 2),
            "slow": col("line").rlike(r"took \d{2,} ms$"),
            "words": F.split("line", r"\s+"),
            "plain": F.regexp_replace("line", "([0-9]+)", "<$1>"),
        }
    )
    assert leaving(engine, parts) == [
        ("/shop", True, ["GET", "/shop?id=7", "took", "12", "ms", ""], "GET /shop?id=<7> took <12> ms\n"),
        ("/cart", False, ["POST", "/cart", "took", "x"], "POST /cart took x"),
        ("/a", False, ["", "GET", "/a", ""], "  GET /a\n"),
        (None, None, None, None),
    ]


ALIKE = (
    r"\B",
    r"\b",
    r"\B.",
    "(?![a-z])",
    "(?<![a-z])(b*)",
    "(?<=(?:b|a))c|x*",
    "(?<=(?:ab){2})c",
    "(?<=(?:a(?=a|b)){2})b",
    "(?<=[^a]{2})c",
    "(?<=^[^a])b",
    "(?i)a|(?!(?:b))(?<!(?:c){2})b",
    "(?!a(?:b))(a)",
    "",
    "^$",
)


@pytest.mark.spark
def test_java_and_python_find_the_same(spark: SparkSession) -> None:
    java = spark.sparkContext._jvm.java.util.regex.Pattern
    for pattern in map(pattern_of, ALIKE):
        for text in ("", "a😀b", "😀", "x😀😀", "ababc", "aab", "AB", "x😀c"):
            found, matcher = pattern.compiled().search(text), java.compile(pattern.java).matcher(text)
            groups = [matcher.group(n) for n in range(pattern.groups + 1)] if matcher.find() else None
            before = text.encode("utf-16-le")[: 2 * matcher.start()].decode("utf-16-le") if groups else ""
            assert groups == (found and [found.group(n) for n in range(pattern.groups + 1)]), (pattern, text)
            assert found is None or len(before) == found.start(), (pattern, text)


@pytest.mark.spark
def test_constants_mean_the_same_in_a_session_that_reads_no_escapes(other_spark: SparkSession) -> None:
    """Texts with backslashes and quotes, and a time before 1970, which Spark leaves to Python."""
    other_spark.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    on_spark = OnSpark(other_spark)
    try:
        for engine in (OnArrow(), on_spark):
            _check_constants(engine)
    finally:
        on_spark.close()


def _check_constants(engine: Slots) -> None:
    utc = datetime.UTC
    made = stream(
        TridentTopology(),
        "t string, at timestamp",
        [("it's\\d 4", datetime.datetime(2026, 10, 25, 0, 30, tzinfo=utc))],
        [("x", datetime.datetime(1890, 1, 1, tzinfo=utc))],
    ).map(
        {
            "t": F.regexp_replace("t", r"\d", "n"),
            "like": F.like("t", "it's\\\\%"),
            "shown": F.hour(F.from_utc_timestamp("at", "Europe/Berlin")),
            "meant": F.to_utc_timestamp(F.from_utc_timestamp("at", "Europe/Berlin"), "Europe/Berlin"),
        }
    )
    assert leaving(engine, made) == [("it's\\d n", True, 2, datetime.datetime(2026, 10, 25, 0, 30, tzinfo=utc))]
    assert leaving(engine, made, 1) == [("x", False, 0, datetime.datetime(1890, 1, 1, tzinfo=utc))]
