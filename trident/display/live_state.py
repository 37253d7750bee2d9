"""A table of a state in a notebook's cell, or as text. The table is read again after each commit."""

import html
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from trident.base.argument_checks import check_whole_number
from trident.base.errors import TridentError
from trident.base.html_table import html_table
from trident.base.value_conversion import to_python
from trident.display.display import Watched
from trident.display.live_output import LiveOutput, MimeTexts
from trident.reads.state_view import StateView


def show_state(
    running: Watched,
    view: StateView,
    committed: Callable[[], int],
    n: int,
    by: str | Callable[[Any], Any] | None,
    every: float,
) -> LiveOutput:
    """Show the `n` entries with the greatest values, as `by` ranks them, until the run ends.

    `committed` returns the last committed txid of the state's group. Raises the errors of the first read.
    """
    check_whole_number("showState: n", n, error=ValueError)

    def read() -> MimeTexts:
        return _rendered(view.name, view.ranked(n, by))

    def read_again() -> MimeTexts:
        try:
            return read()
        except TridentError as error:  # if a store cannot be reached, a later batch is shown once it answers again
            text = f"{view.name}: {error}"
            return {"text/plain": text, "text/html": f"<div><i>{html.escape(text)}</i></div>"}

    def mark() -> object:
        return committed(), running.isActive  # read once more at the end, because the last batch may come late

    return LiveOutput(lambda: running.isActive, mark, read_again, every, first=read)


def _rendered(state: str, table: pa.Table) -> MimeTexts:
    """Return a state's table as text and as HTML, each with the txid as of which the table was read."""
    txid = (table.schema.metadata or {}).get(b"asOfTxid")
    as_of = "the latest values" if txid is None else f"as of txid {txid.decode()}"
    text = table.to_pandas().to_string(index=False) if table.num_rows else "no entries"
    rows = html_table(table.column_names, zip(*map(to_python, table.columns), strict=True))
    head = f"<b>{html.escape(state)}</b> {as_of}"
    return {"text/plain": f"{state}, {as_of}\n{text}", "text/html": f"<div>{head}{rows}</div>"}
