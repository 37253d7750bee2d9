"""Names as users write them: fields, topologies, streams, states; and what they may have meant by a wrong one."""

import difflib
import inspect
import re
from collections.abc import Iterable, Sequence

from trident.base.errors import TopologyError

_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9.-][A-Za-z0-9._-]*")
_OPEN, _CLOSE = "(<[", ")>]"

RESERVED = "__trident_"
"""What the engines' own fields begin with, in whatever case: Spark knows no other."""

FieldsLike = str | Sequence[str]
"""Fields as a user names them: ``"a"``, ``"a, b"`` (split at top-level commas), ``["a", "b"]`` (literal names)."""


def split_top(text: str) -> list[str]:
    """The pieces between top-level commas, stripped; brackets and backticks protect theirs.

    >>> split_top("word string, pairs map<string, int>, `a, b` long")
    ['word string', 'pairs map<string, int>', '`a, b` long']
    """
    pieces, depth, quoted, start = [], 0, False, 0
    for at, char in enumerate(text):
        if char == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:at].strip())
            start = at + 1
    pieces.append(text[start:].strip())
    return pieces


def unquote(name: str) -> str:
    """A name without the backticks around it.

    >>> unquote("`a, b`"), unquote("word")
    ('a, b', 'word')
    """
    if len(name) > 2 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name


def quote(name: str) -> str:
    """A field's name as DDL takes it: backticks where it is no plain word.

    >>> quote("word"), quote("a, b")
    ('word', '`a, b`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def field_names(fields: FieldsLike) -> tuple[str, ...]:
    """The names in a field argument.

    >>> field_names("a, b"), field_names(["a", "b, c"])
    (('a', 'b'), ('a', 'b, c'))
    """
    if isinstance(fields, str):
        names = tuple(unquote(piece) for piece in split_top(fields)) if fields.strip() else ()
    else:
        names = tuple(fields)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TopologyError(f"{fields!r} does not name fields: write 'a', 'a, b' or ['a', 'b']")
    return names


def check_name(what: str, name: object) -> str:
    """Refuse a name that cannot be an identity in logs and stores."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TopologyError(
            f"{what} cannot be named {name!r}: a name is of letters a to z, digits, '-', '_' and '.', "
            "not of dots alone, and begins with no '_'"
        )
    return name


def reserved(names: Iterable[str]) -> str | None:
    """The first of these field names that the engines keep for themselves.

    >>> reserved(["word", "__trident_word"])
    '__trident_word'
    """
    return next((name for name in names if name.lower().startswith(RESERVED)), None)


def by_any_case(name: str, known: Iterable[str]) -> str | None:
    """The known name that this one is, whatever the case and the underscores.

    >>> by_any_case("group_by", ["each", "groupBy"])
    'groupBy'
    """
    asked = _plain(name)
    return next((each for each in known if _plain(each) == asked), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``; did you mean 'x'?``, or nothing where no known name is near.

    >>> did_you_mean("group_by", ["groupBy", "each"])
    "; did you mean 'groupBy'?"
    """
    plain = {_plain(each): each for each in known}
    asked = _plain(name)
    near = [asked] if asked in plain else difflib.get_close_matches(asked, plain, n=1, cutoff=0.6)
    return f"; did you mean {plain[near[0]]!r}?" if near else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


def brief(value: object) -> str:
    """A value in an error: a function by its name, everything else as it shows itself, cut where it is long.

    >>> brief(brief), brief(5)
    ("function 'brief'", '5')
    """
    if inspect.isroutine(value):
        return f"function {value.__name__!r}"
    shown = repr(value)
    if " object at 0x" in shown:
        return f"an object of class {type(value).__name__!r}"
    return shown if len(shown) <= 80 else shown[:77] + "..."
