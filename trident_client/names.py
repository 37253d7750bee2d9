"""Names of fields, topologies, streams and states as users write them, and suggestions for misspelt ones."""

import difflib
import re
from collections.abc import Iterable, Sequence

from trident_client.errors import TopologyError
from trident_client.short_texts import brief as brief

_NAME = re.compile(r"(?!\.+$)[A-Za-z0-9.-][A-Za-z0-9._-]*")
_LONGEST = 255
"""Characters of a name: topologies and states are folders, and file systems take no longer names."""
_OPEN, _CLOSE = "(<[", ")>]"

RESERVED = "__trident_"
"""The prefix of the engines' own fields. No user's field may begin with it, in upper or lower case: Spark ignores case
in names."""

FieldsLike = str | Sequence[str]
"""Fields as a user names them: ``"a"``, ``"a, b"`` (split at top-level commas), ``["a", "b"]`` (literal names)."""


def split_top(text: str) -> list[str]:
    """Split a text at its top-level commas and strip each piece. Commas within brackets and backticks do not split.

    >>> split_top("word string, pairs map<string, int>, `a, b` long")
    ['word string', 'pairs map<string, int>', '`a, b` long']
    """
    pieces, depth, quoted, start = [], 0, False, 0
    for position, char in enumerate(text):
        if char == "`":
            quoted = not quoted
        elif quoted:
            continue
        elif char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif char == "," and depth == 0:
            pieces.append(text[start:position].strip())
            start = position + 1
    pieces.append(text[start:].strip())
    return pieces


def unquote(name: str) -> str:
    """Return a name without the backticks around it.

    >>> unquote("`a, b`"), unquote("word")
    ('a, b', 'word')
    """
    if len(name) > 2 and name[0] == name[-1] == "`":
        return name[1:-1].replace("``", "`")
    return name


def free_name(name: str, taken: Iterable[str]) -> str:
    """Return a name that is not taken: the given one, with underscores before it as needed.

    Spark and SQLite ignore case in names, so one that differs only in case is taken too.

    >>> free_name("value", ["word"]), free_name("value", ["Value", "_value"])
    ('value', '__value')
    """
    known = {other.lower() for other in taken}
    while name.lower() in known:
        name = f"_{name}"
    return name


def quote(name: str) -> str:
    """Return a field's name in the form that DDL accepts: in backticks unless it is a plain word.

    >>> quote("word"), quote("a, b")
    ('word', '`a, b`')
    """
    return name if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) else "`" + name.replace("`", "``") + "`"


def field_names(fields: FieldsLike) -> tuple[str, ...]:
    """Return the names in a field argument.

    >>> field_names("a, b"), field_names(["a", "b, c"])
    (('a', 'b'), ('a', 'b, c'))
    """
    if isinstance(fields, str):
        names = tuple(unquote(piece) for piece in split_top(fields)) if fields.strip() else ()
    elif isinstance(fields, Iterable):
        names = tuple(fields)
    else:
        names = ("",)
    for name in names:
        if not isinstance(name, str) or not name:
            raise TopologyError(f"{fields!r} does not name fields: write 'a', 'a, b' or ['a', 'b']")
    return names


def check_name(owner: str, name: object) -> str:
    """Return `name` if logs and stores accept it as a name.

    Otherwise raise TopologyError, with a message that names `owner`.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise TopologyError(
            f"{owner} cannot be named {name!r}: a name has letters a to z, digits, '-', '_' and '.', does not begin "
            f"with '_', and is not only dots"
        )
    if len(name) > _LONGEST:
        raise TopologyError(
            f"{owner} cannot be named {name[:20]}...: it has {len(name)} characters; the limit is {_LONGEST}"
        )
    return name


def reserved(names: Iterable[str]) -> str | None:
    """Return the first of `names` that is reserved for the engines' own fields; None if there is none.

    >>> reserved(["word", "__trident_word"])
    '__trident_word'
    """
    return next((name for name in names if name.lower().startswith(RESERVED)), None)


def by_any_case(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that equals `name` except for case and underscores; None if there is none.

    >>> by_any_case("group_by", ["each", "groupBy"])
    'groupBy'
    """
    plain = _plain(name)
    return next((candidate for candidate in known if _plain(candidate) == plain), None)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return ``; did you mean 'x'?``; "" if no known name is similar.

    >>> did_you_mean("group_by", ["groupBy", "each"])
    "; did you mean 'groupBy'?"
    """
    candidates = {_plain(candidate): candidate for candidate in known}
    plain = _plain(name)
    near = [plain] if plain in candidates else difflib.get_close_matches(plain, candidates, n=1, cutoff=0.6)
    return f"; did you mean {candidates[near[0]]!r}?" if near else ""


def _plain(name: str) -> str:
    return name.replace("_", "").lower()
