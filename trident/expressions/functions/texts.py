"""Texts."""

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.expressions.functions.calls import named, of_field, of_fields
from trident.expressions.tree import Call, ColumnExpression, operand


def concat(*values: object) -> ColumnExpression:
    """Return the texts joined into one text; null if one of them is null.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> concat("a", "b")
    concat(col('a'), col('b'))
    """
    return of_fields("concat", *values)


def concat_ws(separator: str, *values: object) -> ColumnExpression:
    """Return the texts that are not null, joined with `separator` between them.

    >>> concat_ws("-", "a", "b")
    concat_ws('-', col('a'), col('b'))
    """
    if not isinstance(separator, str):
        raise TopologyError(f"concat_ws: the separator is a text, not {brief(separator)}")
    return Call("concat_ws", (operand(separator), *map(named, values)))


def instr(text: object, part: object) -> ColumnExpression:
    """Return the position of a text in another one, from 1; 0 if it is not there.

    >>> instr("url", "?")
    instr(col('url'), '?')
    """
    return of_field("instr", text, part)


def length(text: object) -> ColumnExpression:
    """Return the number of characters in a text.

    >>> length("t")
    length(col('t'))
    """
    return of_field("length", text)


def like(text: object, pattern: str) -> ColumnExpression:
    r"""Return whether a text matches a pattern: ``%`` is any text, ``_`` one character, and ``\`` escapes them.

    >>> like("name", "a%")
    like(col('name'), 'a%')
    """
    if not isinstance(pattern, str):
        raise TopologyError(f"like: the pattern is a text, not {brief(pattern)}")
    plain = pattern.replace("\\\\", "")
    if any(after not in ("%", "_") for after in [piece[:1] for piece in plain.split("\\")[1:]]):
        raise TopologyError(f"like: in {pattern!r} a backslash must be followed by %, _ or another backslash")
    return of_field("like", text, params=(pattern,))


def lower(text: object) -> ColumnExpression:
    """Return the text in small letters.

    >>> lower("t")
    lower(col('t'))
    """
    return of_field("lower", text)


def lpad(text: object, length: object, pad: object) -> ColumnExpression:
    """Return the text padded on the left with `pad` to `length` characters; a longer text is cut.

    >>> lpad("code", 5, "0")
    lpad(col('code'), 5, '0')
    """
    return of_field("lpad", text, length, pad)


def ltrim(text: object) -> ColumnExpression:
    """Return the text without leading blanks.

    >>> ltrim("t")
    ltrim(col('t'))
    """
    return of_field("ltrim", text)


def repeat(text: object, times: object) -> ColumnExpression:
    """Return the text `times` times in a row.

    >>> repeat("a", 3)
    repeat(col('a'), 3)
    """
    return of_field("repeat", text, times)


def replace(text: object, old: object, new: object) -> ColumnExpression:
    """Return the text with each `old` replaced by `new`.

    >>> replace("text", "-", "")
    replace(col('text'), '-', '')
    """
    return of_field("replace", text, old, new)


def reverse(text: object) -> ColumnExpression:
    """Return the characters of a text in reverse order.

    >>> reverse("t")
    reverse(col('t'))
    """
    return of_field("reverse", text)


def rpad(text: object, length: object, pad: object) -> ColumnExpression:
    """Return the text padded on the right with `pad` to `length` characters; a longer text is cut.

    >>> rpad("code", 5, ".")
    rpad(col('code'), 5, '.')
    """
    return of_field("rpad", text, length, pad)


def rtrim(text: object) -> ColumnExpression:
    """Return the text without blanks at its end.

    >>> rtrim("t")
    rtrim(col('t'))
    """
    return of_field("rtrim", text)


def split_part(text: object, separator: object, part: int) -> ColumnExpression:
    """Return one part of a text split by `separator`: 1 for the first, -1 for the last; "" if there is no such part.

    The separator is a plain text, not a regular expression.

    >>> split_part("url", "/", 3)
    split_part(col('url'), '/', 3)
    """
    if not isinstance(part, int) or isinstance(part, bool) or not (0 < part < 1 << 31 or -1 << 31 < part < 0):
        raise TopologyError(f"split_part: part={brief(part)}: expected 1 for the first part, or -1 for the last")
    return of_field("split_part", text, separator, params=(part,))


def substring(text: object, start: object, length: object) -> ColumnExpression:
    """Return `length` characters of a text, beginning at position `start`.

    The first character has position 1. A negative position counts from the end.

    >>> substring("code", 1, 2)
    col('code').substr(1, 2)
    """
    return of_field("substr", text, start, length)


def trim(text: object) -> ColumnExpression:
    """Return the text without blanks at both ends.

    >>> trim("t")
    trim(col('t'))
    """
    return of_field("trim", text)


def upper(text: object) -> ColumnExpression:
    """Return the text in capital letters.

    >>> upper("t")
    upper(col('t'))
    """
    return of_field("upper", text)
