"""``trident sql``: a query over states, asked of a server or of the states themselves."""

import sys
from collections.abc import Mapping
from typing import Any

import click
import pyarrow as pa

from trident.access.export import rows_of
from trident.access.opened_topology import openTopology
from trident.cli.as_of import as_of_option
from trident.cli.locations import files_options
from trident.cli.output import format_option, show
from trident.cli.program_options import log_at
from trident.cli.secret_types import SecretUrl
from trident.cli.server_options import ServerArguments, server_options
from trident.cluster.program import load_topology
from trident.sql.sql_result import distinct_names


@click.command()
@click.argument("source", metavar="URL|MODULE:TOPOLOGY")
@click.argument("query")
@server_options
@click.option("--name", default="topology", show_default=True, help="With a program: the topology's name.")
@click.option("--checkpoint", envvar="TRIDENT_CHECKPOINT", help="Its checkpointLocation. [env: TRIDENT_CHECKPOINT]")
@click.option("--log-url", type=SecretUrl(), help="The server of its log: redis://host, env:NAME or file:path.")
@click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log.")
@files_options
@as_of_option
@click.option("--max-rows", type=click.IntRange(min=1), help="The most rows of the result; more are an error.")
@format_option
def sql(
    source: str,
    query: str,
    server: ServerArguments,
    name: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    files: dict[str, Any],
    as_of: int | str | None,
    max_rows: int | None,
    form: str | None,
) -> None:
    """Run a SQL QUERY over the states of a topology, as of one committed txid of each batch group.

    A server at URL is asked, or the states of the TOPOLOGY in MODULE are read, without its driver. QUERY is one
    statement of DuckDB's SQL that only reads; "-" reads it from the standard input. The txids go to the standard error.
    """
    text = sys.stdin.read() if query == "-" else query
    if source.startswith(("http://", "https://")):
        with server.client(source) as client:
            rows = client.sql(text, timeout=server.timeout, maxRows=max_rows, asOf=as_of)
            table, txids = rows.toArrow(), rows.txids
    else:
        place: Any = {"name": name, "checkpointLocation": checkpoint, "log": log_at(log_url, log_prefix), **files}
        limits: Any = {} if max_rows is None else {"maxRows": max_rows}
        with openTopology(load_topology(source), **place) as opened:
            result = opened.sql(text, timeout=server.timeout, asOf=as_of, **limits)
            table, txids = result.toArrow(), result.txids
    _show(table, txids, form)


def _show(table: pa.Table, txids: Mapping[str, int], form: str | None) -> None:
    names = distinct_names(table.column_names)
    show(rows_of(table.rename_columns(names)), names, form)
    if txids:
        click.echo("as of " + ", ".join(f"txid {txid} of {group}" for group, txid in txids.items()), err=True)
