"""``trident sql``: run a query over states, on a server or on the states themselves."""

import sys
from collections.abc import Mapping
from typing import Any

import click
import pyarrow as pa

from trident.access.export import rows_of
from trident.cli.as_of import as_of_option
from trident.cli.output import format_option, show
from trident.cli.query_target import SourceArguments, source_options
from trident.cli.server_options import ServerArguments
from trident.sql.sql_result import distinct_names


@click.command()
@source_options
@click.argument("query")
@as_of_option
@click.option("--max-rows", type=click.IntRange(min=1), help="The most rows of the result; more rows are an error.")
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

    The query runs on the server at URL, or reads the states of the TOPOLOGY in MODULE without its driver. QUERY is one
    read-only statement of DuckDB's SQL; "-" reads it from standard input. The txids are printed on standard error.
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
