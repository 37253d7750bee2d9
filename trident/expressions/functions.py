"""Functions of expressions, under the names that they have in ``pyspark.sql.functions``."""

from typing import Any

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.expressions.times import TRUNCATED, parts_of
from trident.expressions.tree import Call, ColumnExpression, Field, operand


def _of(name: str, *args: object, params: tuple[Any, ...] = ()) -> ColumnExpression:
    """Return a call; a text in place of the first argument names a field, as in PySpark."""
    first, *rest = args
    return Call(name, (_named(first), *map(operand, rest)), params)


def _named(value: object) -> ColumnExpression:
    return Field(value) if isinstance(value, str) else operand(value)


def abs(x: object) -> ColumnExpression:
    """Return the absolute value of a number. The least number of a whole type has none, which is an error.

    >>> abs("x")
    abs(col('x'))
    """
    return _of("abs", x)


def sqrt(x: object) -> ColumnExpression:
    """Return the square root of a number, as a double; NaN for a negative number.

    >>> sqrt("x")
    sqrt(col('x'))
    """
    return _of("sqrt", x)


def floor(x: object) -> ColumnExpression:
    """Return the greatest whole number that is not above `x`, as a long, or as a decimal of a decimal.

    >>> floor("x")
    floor(col('x'))
    """
    return _of("floor", x)


def ceil(x: object) -> ColumnExpression:
    """Return the least whole number that is not below `x`, as a long, or as a decimal of a decimal.

    >>> ceil("x")
    ceil(col('x'))
    """
    return _of("ceil", x)


def upper(text: object) -> ColumnExpression:
    """Return the text in capital letters.

    >>> upper("t")
    upper(col('t'))
    """
    return _of("upper", text)


def lower(text: object) -> ColumnExpression:
    """Return the text in small letters.

    >>> lower("t")
    lower(col('t'))
    """
    return _of("lower", text)


def length(text: object) -> ColumnExpression:
    """Return the number of characters in a text.

    >>> length("t")
    length(col('t'))
    """
    return _of("length", text)


def trim(text: object) -> ColumnExpression:
    """Return the text without blanks at both ends.

    >>> trim("t")
    trim(col('t'))
    """
    return _of("trim", text)


def ltrim(text: object) -> ColumnExpression:
    """Return the text without blanks at its beginning.

    >>> ltrim("t")
    ltrim(col('t'))
    """
    return _of("ltrim", text)


def rtrim(text: object) -> ColumnExpression:
    """Return the text without blanks at its end.

    >>> rtrim("t")
    rtrim(col('t'))
    """
    return _of("rtrim", text)


def reverse(text: object) -> ColumnExpression:
    """Return the characters of a text from the last to the first.

    >>> reverse("t")
    reverse(col('t'))
    """
    return _of("reverse", text)


def size(values: object) -> ColumnExpression:
    """Return the number of elements in an array or map.

    >>> size("v")
    size(col('v'))
    """
    return _of("size", values)


def year(time: object) -> ColumnExpression:
    """Return the year of a date or timestamp, in UTC.

    >>> year("t")
    year(col('t'))
    """
    return _of("year", time)


def quarter(time: object) -> ColumnExpression:
    """Return the quarter of a date or timestamp, 1 to 4, in UTC.

    >>> quarter("t")
    quarter(col('t'))
    """
    return _of("quarter", time)


def month(time: object) -> ColumnExpression:
    """Return the month of a date or timestamp, 1 to 12, in UTC.

    >>> month("t")
    month(col('t'))
    """
    return _of("month", time)


def dayofmonth(time: object) -> ColumnExpression:
    """Return the day of the month, 1 to 31, of a date or timestamp, in UTC.

    >>> dayofmonth("t")
    dayofmonth(col('t'))
    """
    return _of("dayofmonth", time)


def dayofyear(time: object) -> ColumnExpression:
    """Return the day of the year, 1 to 366, of a date or timestamp, in UTC.

    >>> dayofyear("t")
    dayofyear(col('t'))
    """
    return _of("dayofyear", time)


def dayofweek(time: object) -> ColumnExpression:
    """Return the day of the week, 1 for Sunday to 7, of a date or timestamp, in UTC.

    >>> dayofweek("t")
    dayofweek(col('t'))
    """
    return _of("dayofweek", time)


def weekofyear(time: object) -> ColumnExpression:
    """Return the ISO week of the year, 1 to 53, of a date or timestamp, in UTC.

    >>> weekofyear("t")
    weekofyear(col('t'))
    """
    return _of("weekofyear", time)


def hour(time: object) -> ColumnExpression:
    """Return the hour of a timestamp, 0 to 23, in UTC.

    >>> hour("t")
    hour(col('t'))
    """
    return _of("hour", time)


def minute(time: object) -> ColumnExpression:
    """Return the minute of a timestamp, 0 to 59, in UTC.

    >>> minute("t")
    minute(col('t'))
    """
    return _of("minute", time)


def second(time: object) -> ColumnExpression:
    """Return the second of a timestamp, 0 to 59, in UTC.

    >>> second("t")
    second(col('t'))
    """
    return _of("second", time)


def to_date(time: object) -> ColumnExpression:
    """Return the day of a timestamp, in UTC, as a date.

    >>> to_date("t")
    to_date(col('t'))
    """
    return _of("to_date", time)


def unix_seconds(time: object) -> ColumnExpression:
    """Return the whole seconds of a timestamp since 1970 in UTC, as a long.

    >>> unix_seconds("t")
    unix_seconds(col('t'))
    """
    return _of("unix_seconds", time)


def unix_millis(time: object) -> ColumnExpression:
    """Return the whole milliseconds of a timestamp since 1970 in UTC, as a long.

    >>> unix_millis("t")
    unix_millis(col('t'))
    """
    return _of("unix_millis", time)


def unix_micros(time: object) -> ColumnExpression:
    """Return the microseconds of a timestamp since 1970 in UTC, as a long.

    >>> unix_micros("t")
    unix_micros(col('t'))
    """
    return _of("unix_micros", time)


def timestamp_seconds(number: object) -> ColumnExpression:
    """Return the timestamp that is `number` seconds after the beginning of 1970 in UTC.

    >>> timestamp_seconds("n")
    timestamp_seconds(col('n'))
    """
    return _of("timestamp_seconds", number)


def timestamp_millis(number: object) -> ColumnExpression:
    """Return the timestamp that is `number` milliseconds after the beginning of 1970 in UTC.

    >>> timestamp_millis("n")
    timestamp_millis(col('n'))
    """
    return _of("timestamp_millis", number)


def timestamp_micros(number: object) -> ColumnExpression:
    """Return the timestamp that is `number` microseconds after the beginning of 1970 in UTC.

    >>> timestamp_micros("n")
    timestamp_micros(col('n'))
    """
    return _of("timestamp_micros", number)


def pmod(a: object, b: object) -> ColumnExpression:
    """Return the remainder of a division of whole numbers that is not negative.

    >>> pmod("a", 3)
    pmod(col('a'), 3)
    """
    return _of("pmod", a, b)


def instr(text: object, part: object) -> ColumnExpression:
    """Return the position of a text in another one, from 1; 0 if it is not there.

    >>> instr("url", "?")
    instr(col('url'), '?')
    """
    return _of("instr", text, part)


def repeat(text: object, times: object) -> ColumnExpression:
    """Return the text `times` times in a row.

    >>> repeat("a", 3)
    repeat(col('a'), 3)
    """
    return _of("repeat", text, times)


def date_add(day: object, days: object) -> ColumnExpression:
    """Return the date `days` days after `day`. A date outside the years 1 to 9999 is an error.

    >>> date_add("day", 1)
    date_add(col('day'), 1)
    """
    return _of("date_add", day, days)


def date_sub(day: object, days: object) -> ColumnExpression:
    """Return the date `days` days before `day`. A date outside the years 1 to 9999 is an error.

    >>> date_sub("day", 1)
    date_sub(col('day'), 1)
    """
    return _of("date_sub", day, days)


def datediff(end: object, start: object) -> ColumnExpression:
    """Return the number of days from the date `start` to the date `end`.

    >>> from trident import col; datediff("end", col("start"))
    datediff(col('end'), col('start'))
    """
    return _of("datediff", end, start)


def array_contains(values: object, value: object) -> ColumnExpression:
    """Return whether an array has an element; null if only a null could be it.

    >>> array_contains("tags", "new")
    array_contains(col('tags'), 'new')
    """
    return _of("array_contains", values, value)


def get(values: object, position: object) -> ColumnExpression:
    """Return the element of an array at `position`, from 0; null outside of the array.

    >>> get("words", 0)
    get(col('words'), 0)
    """
    return _of("get", values, position)


def nullif(a: object, b: object) -> ColumnExpression:
    """Return null if both values are equal, and `a` otherwise.

    >>> nullif("n", 0)
    nullif(col('n'), 0)
    """
    return _of("nullif", a, b)


def replace(text: object, old: object, new: object) -> ColumnExpression:
    """Return the text with `new` in place of each `old`.

    >>> replace("text", "-", "")
    replace(col('text'), '-', '')
    """
    return _of("replace", text, old, new)


def substring(text: object, start: object, length: object) -> ColumnExpression:
    """Return `length` characters of a text from the position `start`, from 1; negative: from the end.

    >>> substring("code", 1, 2)
    col('code').substr(1, 2)
    """
    return _of("substr", text, start, length)


def lpad(text: object, length: object, pad: object) -> ColumnExpression:
    """Return the text with `pad` before it up to `length` characters; a longer text is cut.

    >>> lpad("code", 5, "0")
    lpad(col('code'), 5, '0')
    """
    return _of("lpad", text, length, pad)


def rpad(text: object, length: object, pad: object) -> ColumnExpression:
    """Return the text with `pad` behind it up to `length` characters; a longer text is cut.

    >>> rpad("code", 5, ".")
    rpad(col('code'), 5, '.')
    """
    return _of("rpad", text, length, pad)


def coalesce(*values: object) -> ColumnExpression:
    """Return the first value that is not null; the values behind it are not computed.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> coalesce("a", "b")
    coalesce(col('a'), col('b'))
    """
    return _several("coalesce", values, 1)


def greatest(*values: object) -> ColumnExpression:
    """Return the greatest value that is not null; NaN is the greatest number.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> greatest("a", "b")
    greatest(col('a'), col('b'))
    """
    return _several("greatest", values, 2)


def least(*values: object) -> ColumnExpression:
    """Return the least value that is not null.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> least("a", "b")
    least(col('a'), col('b'))
    """
    return _several("least", values, 2)


def concat(*values: object) -> ColumnExpression:
    """Return the texts as one text; null if one of them is.

    A text names a field, as in PySpark; a constant text is ``lit("a")``.

    >>> concat("a", "b")
    concat(col('a'), col('b'))
    """
    return _several("concat", values, 1)


def concat_ws(separator: str, *values: object) -> ColumnExpression:
    """Return the texts that are not null as one text, with `separator` between them.

    >>> concat_ws("-", "a", "b")
    concat_ws('-', col('a'), col('b'))
    """
    if not isinstance(separator, str):
        raise TopologyError(f"concat_ws: the separator is a text, not {brief(separator)}")
    return Call("concat_ws", (operand(separator), *map(_named, values)))


def _several(name: str, values: tuple[object, ...], least_number: int) -> ColumnExpression:
    if len(values) < least_number:
        raise TopologyError(f"{name}: give at least {least_number} value{'s' if least_number > 1 else ''}")
    return Call(name, tuple(map(_named, values)))


def isnull(value: object) -> ColumnExpression:
    """Return whether a value is null.

    >>> isnull("n")
    col('n').isNull()
    """
    return _of("isNull", value)


def isnan(value: object) -> ColumnExpression:
    """Return whether a float or double is not a number; false for null.

    >>> isnan("x")
    col('x').isNaN()
    """
    return _of("isNaN", value)


def round(x: object, scale: int = 0) -> ColumnExpression:  # noqa: A001  # the name that it has in PySpark
    """Return a number with `scale` digits behind the point, rounded half up. A negative `scale` rounds before it.

    >>> round("price", 2)
    round(col('price'), 2)
    """
    if not isinstance(scale, int) or isinstance(scale, bool) or not -38 <= scale <= 38:
        raise TopologyError(f"round: scale={brief(scale)}: expected an int from -38 to 38")
    return _of("round", x, params=(scale,))


def split_part(text: object, separator: object, part: int) -> ColumnExpression:
    """Return one part of a text that `separator` divides: 1 for the first, -1 for the last; "" if it is not there.

    The separator is a plain text, and no regular expression.

    >>> split_part("url", "/", 3)
    split_part(col('url'), '/', 3)
    """
    if not isinstance(part, int) or isinstance(part, bool) or not (0 < part < 1 << 31 or -1 << 31 < part < 0):
        raise TopologyError(f"split_part: part={brief(part)}: expected 1 for the first part, or -1 for the last")
    return _of("split_part", text, separator, params=(part,))


def like(text: object, pattern: str) -> ColumnExpression:
    r"""Return whether a text has the form of a pattern: ``%`` is any text, ``_`` one character, and ``\`` escapes them.

    >>> like("name", "a%")
    like(col('name'), 'a%')
    """
    if not isinstance(pattern, str):
        raise TopologyError(f"like: the pattern is a text, not {brief(pattern)}")
    plain = pattern.replace("\\\\", "")
    if any(after not in ("%", "_") for after in [piece[:1] for piece in plain.split("\\")[1:]]):
        raise TopologyError(f"like: in {pattern!r} a backslash stands before neither %, _ nor a backslash")
    return _of("like", text, params=(pattern,))


def date_trunc(unit: str, time: object) -> ColumnExpression:
    """Return the beginning of the unit in which a timestamp lies, in UTC: year, quarter, month, week, day, hour ...

    >>> date_trunc("hour", "at")
    date_trunc(col('at'), 'hour')
    """
    if unit not in TRUNCATED:
        raise TopologyError(f"date_trunc: unit={brief(unit)}: expected one of {', '.join(TRUNCATED)}")
    return _of("date_trunc", time, params=(unit,))


def date_format(time: object, pattern: str) -> ColumnExpression:
    """Return a date or timestamp as text, in UTC: ``yyyy``, ``MM``, ``dd``, ``HH``, ``mm``, ``ss`` and signs.

    >>> date_format("at", "yyyy-MM-dd")
    date_format(col('at'), 'yyyy-MM-dd')
    """
    try:
        parts_of(pattern)
    except (ValueError, TypeError, AttributeError) as error:
        known = "yyyy, MM, dd, HH, mm, ss and signs between them"
        raise TopologyError(f"date_format: pattern={brief(pattern)}: expected {known}, not {error}") from None
    return _of("date_format", time, params=(pattern,))


def struct(**fields: object) -> ColumnExpression:
    """Return a struct of these fields, each with its expression.

    >>> struct(price="price", euro=operand(1))
    struct(col('price'), 1, 'price', 'euro')
    """
    if not fields:
        raise TopologyError("struct: give at least one field, such as struct(price=col('price'))")
    return Call("struct", tuple(map(_named, fields.values())), tuple(fields))
