"""``trident sql``: a query over states, asked of a server or of the states themselves."""

import sys
from collections.abc import Mapping
from typing import Any

import click
import pyarrow as pa

from trident.access.export import rows_of
from trident.cli.as_of import as_of_option
from trident.cli.output import format_option, show
from trident.cli.server_options import ServerArguments
from trident.cli.sources import SourceArguments, source_options
from trident.sql.sql_result import distinct_names


@click.command()
@source_options
@click.argument("query")
@as_of_option
@click.option("--max-rows", type=click.IntRange(min=1), help="The most rows of the result; more are an error.")
@format_option
def sql(
    source: SourceArguments,
    server: ServerArguments,
    query: str,
    as_of: int | str | None,
    max_rows: int | None,
    form: str | None,
) -> None:
    """Run a SQL QUERY over the states of a topology, as of one committed txid of each batch group.

    A server at URL is asked, or the states of the TOPOLOGY in MODULE are read, without its driver. QUERY is one
    statement of DuckDB's SQL that only reads; "-" reads it from the standard input. The txids go to the standard error.
    """
    text = sys.stdin.read() if query == "-" else query
    if source.isServer:
        with source.client(server) as client:
            rows = client.sql(text, timeout=server.timeout, maxRows=max_rows, asOf=as_of)
            table, txids = rows.toArrow(), rows.txids
    else:
        limits: Any = {} if max_rows is None else {"maxRows": max_rows}
        with source.opened() as opened:
            result = opened.sql(text, timeout=server.timeout, asOf=as_of, **limits)
            table, txids = result.toArrow(), result.txids
    _show(table, txids, form)


def _show(table: pa.Table, txids: Mapping[str, int], form: str | None) -> None:
    names = distinct_names(table.column_names)
    show(rows_of(table.rename_columns(names)), names, form)
    if txids:
        click.echo("as of " + ", ".join(f"txid {txid} of {group}" for group, txid in txids.items()), err=True)
