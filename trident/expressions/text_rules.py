"""The rules of texts. Positions count characters from 1, as in SQL."""

import re
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as spark
from pyspark.sql.types import DataType

from trident.expressions.expression_types import BOOLEAN, INT, STRING, Mismatch, is_integral
from trident.expressions.rules import Datum, Typed, as_is, quoted_text, rule, takes


def _is_text(kind: DataType) -> bool:
    return isinstance(kind, spark.StringType | spark.NullType)


TEXT = (_is_text, "a text")
WHOLE = (lambda kind: is_integral(kind) and not isinstance(kind, spark.LongType), "an int")


def _of_ascii(function: Callable[[Datum], Datum]) -> Callable[..., Datum | None]:
    """Return a form for columns that is used only for ASCII text: beyond it, Arrow's letters differ from Java's."""

    def columns(call: Typed, texts: Datum) -> Datum | None:
        if not isinstance(texts, pa.Array) or not pc.all(pc.string_is_ascii(texts)).as_py():
            return None
        return function(texts)

    return columns


def _sought(function: Callable[..., Datum]) -> Callable[..., Datum | None]:
    """Return the form for columns of a search for one constant text."""

    def columns(call: Typed, texts: Datum, part: Datum) -> Datum | None:
        if not isinstance(part, pa.Scalar) or not part.is_valid:
            return None
        return function(texts, part.as_py())

    return columns


rule("upper", takes(TEXT, gives=STRING), as_is(str.upper), "upper({})", _of_ascii(pc.utf8_upper))
rule("lower", takes(TEXT, gives=STRING), as_is(str.lower), "lower({})", _of_ascii(pc.utf8_lower))
rule("length", takes(TEXT, gives=INT), as_is(len), "length({})", lambda call, a: pc.utf8_length(a))
rule("reverse", takes(TEXT, gives=STRING), as_is(lambda a: a[::-1]), "reverse({})")
for _name, _strip, _arrow in (
    ("trim", str.strip, pc.utf8_trim),
    ("ltrim", str.lstrip, pc.utf8_ltrim),
    ("rtrim", str.rstrip, pc.utf8_rtrim),
):
    rule(
        _name,
        takes(TEXT, gives=STRING),
        as_is(lambda a, strip=_strip: strip(a, " ")),
        f"{_name}({{}})",
        lambda call, a, trimmed=_arrow: trimmed(a, " "),
    )
rule(
    "contains",
    takes(TEXT, TEXT, gives=BOOLEAN),
    as_is(lambda a, b: b in a),
    "contains({}, {})",
    _sought(pc.match_substring),
)
rule(
    "startswith",
    takes(TEXT, TEXT, gives=BOOLEAN),
    as_is(lambda a, b: a.startswith(b)),
    "startswith({}, {})",
    _sought(pc.starts_with),
)
rule(
    "endswith",
    takes(TEXT, TEXT, gives=BOOLEAN),
    as_is(lambda a, b: a.endswith(b)),
    "endswith({}, {})",
    _sought(pc.ends_with),
)
rule("instr", takes(TEXT, TEXT, gives=INT), as_is(lambda a, b: a.find(b) + 1), "instr({}, {})", None)


def _substring(text: str, start: int, length: int) -> str:
    if length <= 0:
        return ""
    first = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    return text[max(first, 0) : max(first + length, 0)]


def _substring_columns(call: Typed, texts: Datum, start: Datum, length: Datum) -> Datum | None:
    if not (isinstance(start, pa.Scalar) and isinstance(length, pa.Scalar) and start.is_valid and length.is_valid):
        return None
    first, count = start.as_py(), length.as_py()
    if first < 1 or count < 1:
        return None
    return pc.utf8_slice_codeunits(texts, first - 1, first - 1 + count)


rule("substr", takes(TEXT, WHOLE, WHOLE, gives=STRING), as_is(_substring), "substring({}, {}, {})", _substring_columns)


def _texts(kinds: tuple[DataType, ...], params: tuple[Any, ...]) -> Typed:
    for kind in kinds:
        if not _is_text(kind):
            raise Mismatch(f"expected texts, not {kind.simpleString()}; cast it to string")
    return Typed(tuple(STRING for _ in kinds), STRING)


def _joined_columns(call: Typed, *texts: Datum) -> Datum:
    empty = pa.scalar("", pa.string())
    return pc.binary_join_element_wise(*texts, empty)


rule(
    "concat",
    _texts,
    as_is(lambda *texts: "".join(texts)),
    lambda call, *texts: f"concat({', '.join(texts)})",
    _joined_columns,
)


def _joined(separator: Any, *texts: Any) -> Any:
    return None if separator is None else separator.join(text for text in texts if text is not None)


rule("concat_ws", _texts, as_is(_joined), lambda call, *texts: f"concat_ws({', '.join(texts)})", None, nulls=True)


def _replaced(text: str, old: str, new: str) -> str:
    return text.replace(old, new) if old else text


def _replaced_columns(call: Typed, texts: Datum, old: Datum, new: Datum) -> Datum | None:
    if not (isinstance(old, pa.Scalar) and isinstance(new, pa.Scalar) and old.as_py() and new.is_valid):
        return None
    return pc.replace_substring(texts, old.as_py(), new.as_py())


rule("replace", takes(TEXT, TEXT, TEXT, gives=STRING), as_is(_replaced), "replace({}, {}, {})", _replaced_columns)


def _part(call: Typed) -> Callable[[str, str], str]:
    """Return split_part for a constant part number other than 0."""
    (number,) = call.params

    def value(text: str, separator: str) -> str:
        parts = text.split(separator) if separator else [text]
        at = number - 1 if number > 0 else len(parts) + number
        return parts[at] if 0 <= at < len(parts) else ""

    return value


def _part_columns(call: Typed, texts: Datum, separator: Datum) -> Datum | None:
    """Return parts counted from the left, by a separator that is the same for all tuples."""
    (number,) = call.params
    if number < 0 or not isinstance(separator, pa.Scalar) or not separator.as_py():
        return None
    parts = pc.split_pattern(texts, separator.as_py(), max_splits=number)
    only = pc.list_element(pc.list_slice(parts, number - 1, number, return_fixed_size_list=True), 0)
    return pc.if_else(pc.is_valid(texts), pc.fill_null(only, ""), pa.scalar(None, pa.string()))


rule(
    "split_part",
    takes(TEXT, TEXT, gives=STRING),
    _part,
    lambda call, text, separator: f"split_part({text}, {separator}, {call.params[0]})",
    _part_columns,
)


def _padded(left: bool) -> Callable[[str, int, str], str]:
    def value(text: str, length: int, pad: str) -> str:
        if length <= 0:
            return ""
        missing = length - len(text)
        if missing <= 0 or not pad:
            return text[:length]
        fill = (pad * (missing // len(pad) + 1))[:missing]
        return fill + text if left else text + fill

    return value


rule("lpad", takes(TEXT, WHOLE, TEXT, gives=STRING), as_is(_padded(True)), "lpad({}, {}, {})")
rule("rpad", takes(TEXT, WHOLE, TEXT, gives=STRING), as_is(_padded(False)), "rpad({}, {}, {})")
rule("repeat", takes(TEXT, WHOLE, gives=STRING), as_is(lambda text, times: text * max(times, 0)), "repeat({}, {})")


def _like(call: Typed) -> Callable[[str], bool]:
    (pattern,) = call.params
    compiled = re.compile(like_regex(pattern), re.DOTALL)
    return lambda text: compiled.fullmatch(text) is not None


def like_regex(pattern: str) -> str:
    r"""Return the regular expression for a pattern of LIKE, in which ``\`` escapes a character.

    >>> like_regex("a%_")
    'a.*.'
    """
    parts, characters = [], iter(pattern)
    for character in characters:
        if character == "\\":
            parts.append(re.escape(next(characters, "\\")))
        else:
            parts.append(".*" if character == "%" else "." if character == "_" else re.escape(character))
    return "".join(parts)


rule(
    "like",
    takes(TEXT, gives=BOOLEAN),
    _like,
    lambda call, text: f"({text} LIKE {quoted_text(call.params[0])})",
)
