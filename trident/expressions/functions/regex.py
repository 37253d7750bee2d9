"""Regular expressions."""

from trident.base.errors import TopologyError
from trident.base.short_texts import brief
from trident.expressions.functions.calls import of_field
from trident.expressions.portable_regex import Pattern, asked_pattern, asked_template
from trident.expressions.tree import ColumnExpression


def regexp_extract(text: object, pattern: str, idx: int = 1) -> ColumnExpression:
    """Return the group `idx` of the first match of a pattern, 0 for the whole match; "" if nothing matches.

    >>> regexp_extract("line", r"status=([0-9]+)")
    regexp_extract(col('line'), 'status=([0-9]+)', 1)
    """
    groups = asked_pattern("regexp_extract", pattern).groups
    if not isinstance(idx, int) or isinstance(idx, bool) or not 0 <= idx <= groups:
        raise TopologyError(f"regexp_extract: idx={brief(idx)}: expected 0 to {groups}, the groups of {brief(pattern)}")
    return of_field("regexp_extract", text, params=(pattern, idx))


def regexp_replace(text: object, pattern: str, replacement: str) -> ColumnExpression:
    r"""Return a text with each match of a pattern replaced. In the replacement ``$1`` is the first group.

    A plain dollar is ``\$``, and a plain backslash ``\\``. A pattern that may match nothing raises TopologyError.

    >>> regexp_replace("phone", "[^0-9]", "")
    regexp_replace(col('phone'), '[^0-9]', '')
    """
    groups = _not_empty("regexp_replace", pattern).groups
    asked_template("regexp_replace", replacement, groups)
    return of_field("regexp_replace", text, params=(pattern, replacement))


def rlike(text: object, pattern: str) -> ColumnExpression:
    r"""Return whether a pattern matches a part of a text; ``^`` and ``$`` anchor it to the ends.

    The patterns are those that Java and Python share: characters, ``.``, classes such as ``[a-z]``, ``\d``, ``\w``,
    ``\s``, ``\b`` (of ASCII), groups, ``|``, repetitions, conditions such as ``(?=a)``, and the flags ``(?i)`` and
    ``(?s)`` at the beginning. Others raise TopologyError.

    >>> rlike("url", r"^https?://")
    col('url').rlike('^https?://')
    """
    asked_pattern("rlike", pattern)
    return of_field("rlike", text, params=(pattern,))


def split(text: object, pattern: str) -> ColumnExpression:
    r"""Return the parts of a text between the matches of a pattern, as an array.

    A pattern that may match nothing raises TopologyError.

    >>> split("line", r"\s*,\s*")
    split(col('line'), '\\s*,\\s*')
    """
    _not_empty("split", pattern)
    return of_field("split", text, params=(pattern,))


def _not_empty(name: str, pattern: object) -> Pattern:
    """Return a pattern that matches at least one character: Java and Python treat empty matches differently."""
    asked = asked_pattern(name, pattern)
    if asked.shortest == 0:
        raise TopologyError(
            f"{name}: {brief(pattern)} can match the empty text; write a pattern that "
            f"always matches at least one character"
        )
    return asked
