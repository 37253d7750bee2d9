"""Globs for names with slashes. They mean the same as in Python's module `glob`."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

_GLOB = "*?["


def wild_at(parts: Sequence[str]) -> int | None:
    """Return the index of the first part of a path that has a wildcard; None if no part has a wildcard.

    >>> wild_at(["data", "2024-*", "x"]), wild_at(["data"])
    (1, None)
    """
    return next((at for at, part in enumerate(parts) if any(sign in part for sign in _GLOB)), None)


def matches(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern: ``*`` and ``?`` match no slash, ``**`` matches whole folders.

    >>> matches("a/b/c.txt", "**/*.txt"), matches("c.txt", "**/*.txt"), matches("a/b.txt", "*.txt")
    (True, True, False)
    """
    return _match(name.split("/"), pattern.split("/"))


def _match(parts: list[str], pattern: list[str]) -> bool:
    if not pattern:
        return not parts
    if pattern[0] == "**":
        return any(_match(parts[at:], pattern[1:]) for at in range(len(parts) + 1))
    return bool(parts) and fnmatchcase(parts[0], pattern[0]) and _match(parts[1:], pattern[1:])


def literal_start(pattern: str) -> str:
    """Return the longest text without wildcards with which every matching name begins.

    >>> literal_start("2024-*/x"), literal_start("[*]x")
    ('2024-', '*x')
    """
    start = ""
    for sign in re.findall(r"\[[*?[]\]|.", pattern, re.DOTALL):  # `glob.escape` writes "*" as "[*]"
        if sign in _GLOB:
            break
        start += sign[1] if len(sign) == 3 else sign
    return start
