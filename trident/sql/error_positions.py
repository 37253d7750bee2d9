"""Errors that show their position in the text of a query."""

import re

from trident.base.errors import SqlError

_SHOWN = re.compile(r"\nLINE (\d+): (?:\.\.\.)?(.*)\n( *)\^")
_BEFORE, _AFTER = 60, 40


def placed(error: SqlError, query: str) -> SqlError:
    """Return an error with its line of the query and a mark below the position, as DuckDB shows it.

    DuckDB counts the bytes of a text; `position` of the returned error counts its characters.

    >>> print(placed(SqlError("syntax error", 9), "select \u00e9, from x"))
    syntax error
    <BLANKLINE>
    LINE 1: select é, from x
                    ^
    >>> placed(SqlError("syntax error", 9), "select \u00e9, from x").position
    8
    """
    if error.position is None:
        return error
    before = query.encode(errors="replace")[: error.position].decode(errors="ignore")
    start = before.rfind("\n") + 1
    column = len(before) - start
    line = query[start:].partition("\n")[0]
    cut = max(0, column - _BEFORE)
    head = f"LINE {before.count(chr(10)) + 1}: {'...' if cut else ''}"
    shown = f"{head}{line[cut : column + _AFTER]}\n{' ' * (len(head) + column - cut)}^"
    return type(error)(f"{error}\n\n{shown}", len(before))


def position_in(message: str, query: str) -> int | None:
    r"""Return the position that a DuckDB message shows, in characters from 0; None if it shows none.

    >>> position_in("no column n\n\nLINE 2: from x where n\n                     ^", "select 1\nfrom x where n")
    22
    """
    shown = _SHOWN.search(message)
    lines = query.split("\n")
    if shown is None or int(shown[1]) > len(lines):
        return None
    number, text = int(shown[1]) - 1, shown[2].removesuffix("...")
    column = len(shown[3]) - (shown.start(2) - shown.start() - 1)
    if lines[number].count(text) != 1:
        return None
    return sum(len(line) + 1 for line in lines[:number]) + lines[number].index(text) + column
