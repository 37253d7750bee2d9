"""The rules of regular expressions. A pattern is a constant."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark

from trident.expressions.expression_types import BOOLEAN, STRING
from trident.expressions.portable_regex import java_template, pattern_of, template_of
from trident.expressions.rules import Datum, Typed, quoted_text, rule, takes
from trident.expressions.text_rules import TEXT


def _java(pattern: str) -> str:
    return quoted_text(pattern_of(pattern).java)


def _matching(call: Typed) -> Callable[[str], bool]:
    search = pattern_of(call.params[0]).compiled().search
    return lambda text: search(text) is not None


def _matching_columns(call: Typed, texts: Datum) -> Datum | None:
    literal = pattern_of(call.params[0]).literal
    return None if literal is None else pc.match_substring(texts, literal)


rule(
    "rlike",
    takes(TEXT, gives=BOOLEAN),
    _matching,
    lambda call, text: f"({text} RLIKE {_java(call.params[0])})",
    _matching_columns,
)


def _extracted(call: Typed) -> Callable[[str], str]:
    pattern, group = call.params
    search = pattern_of(pattern).compiled().search

    def value(text: str) -> str:
        found = search(text)
        return "" if found is None else found.group(group) or ""

    return value


rule(
    "regexp_extract",
    takes(TEXT, gives=STRING),
    _extracted,
    lambda call, text: f"regexp_extract({text}, {_java(call.params[0])}, {call.params[1]})",
)


def _replaced(call: Typed) -> Callable[[str], str]:
    pattern = pattern_of(call.params[0])
    substitute, parts = pattern.compiled().sub, template_of(call.params[1], pattern.groups)

    def inserted(found: Any) -> str:
        return "".join(part if isinstance(part, str) else found.group(part) or "" for part in parts)

    return lambda text: substitute(inserted, text)


def _replaced_sql(call: Typed, text: str) -> str:
    pattern = pattern_of(call.params[0])
    inserted = java_template(template_of(call.params[1], pattern.groups))
    return f"regexp_replace({text}, {quoted_text(pattern.java)}, {quoted_text(inserted)})"


rule("regexp_replace", takes(TEXT, gives=STRING), _replaced, _replaced_sql)


def _parts(call: Typed) -> Callable[[str], list[str]]:
    finditer = pattern_of(call.params[0]).compiled().finditer

    def value(text: str) -> list[str]:
        made, at = [], 0
        for found in finditer(text):
            made.append(text[at : found.start()])
            at = found.end()
        return [*made, text[at:]]

    return value


def _parts_columns(call: Typed, texts: Datum) -> Datum | None:
    literal = pattern_of(call.params[0]).literal
    if literal is None or not isinstance(texts, pa.Array):
        return None
    return pc.cast(pc.split_pattern(texts, literal), call.arrow)


rule(
    "split",
    takes(TEXT, gives=spark.ArrayType(STRING, False)),
    _parts,
    lambda call, text: f"split({text}, {_java(call.params[0])})",
    _parts_columns,
)
