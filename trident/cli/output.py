"""Output of commands: JSON lines, or a table for people."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from trident.base.json_values import to_json

FORMATS = ("json", "table")

format_option = click.option(
    "--format", "form", type=click.Choice(FORMATS), default=None, help="JSON lines (when piped), or a table."
)


def show(rows: Iterable[Mapping[str, Any]], columns: Sequence[str], form: str | None) -> None:
    """Print rows with these columns in the format `form`: None means a table on a terminal, otherwise JSON lines."""
    if (form or ("table" if sys.stdout.isatty() else "json")) == "json":
        for row in rows:
            click.echo(to_json(dict(row)))
        return
    for line in table_lines(rows, columns):
        click.echo(line)


def table_lines(rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of a table: the names of the columns, then one line for each row.

    >>> list(table_lines([{"word": "dog", "value": 2}], ["word", "value"]))
    ['word  value', 'dog   2']
    """
    lines = [list(columns), *([_cell(row[column]) for column in columns] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return value if isinstance(value, str) else to_json(value)
