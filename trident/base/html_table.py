"""Tables as HTML, for notebooks."""

import html
from collections.abc import Iterable


def html_table(names: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Return a table with `names` as its head, and a cell with the text of each value.

    >>> html_table(["word"], [["<cow>"]])
    '<table><tr><th>word</th></tr><tr><td>&lt;cow&gt;</td></tr></table>'
    """
    head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(v))}</td>" for v in row) + "</tr>" for row in rows)
    return f"<table><tr>{head}</tr>{body}</table>"
