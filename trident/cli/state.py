"""``trident state list|get|scan|export|drop``."""

import contextlib
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from trident.access.export import FORMATS, export_state
from trident.access.listing import StateInfo, listStates
from trident.access.opened_state import OpenedState
from trident.access.opening import openState
from trident.access.removal import dropState
from trident.base.errors import StateKeyError
from trident.base.values import to_python
from trident.cli.keys import read_key
from trident.cli.locations import place_options, read_places
from trident.cli.output import format_option, show

NOT_FOUND = 3

_isolation = click.option("--latest", is_flag=True, help="Whatever was written last, committed or not.")


@click.group()
def state() -> None:
    """List, read, export and drop states by their names. Reading takes no lease and disturbs no driver."""


@state.command("list")
@click.argument("topology", required=False)
@place_options
@format_option
def list_(topology: str | None, form: str | None, **place: Any) -> None:
    """The states there are, of all topologies or one."""
    found = listStates(topology=topology, **read_places(**place))
    if not found:
        folder = place["checkpoint"]
        gone = folder is not None and not Path(folder).is_dir()
        click.echo(f"no states: there is no folder {folder}" if gone else "no states there", err=True)
        return
    show([each.asDict() for each in found], list(StateInfo.__dataclass_fields__), form)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@click.argument("keys", nargs=-1)
@place_options
@_isolation
@format_option
def get(topology: str, name: str, keys: tuple[str, ...], latest: bool, form: str | None, **place: Any) -> None:
    """The values of KEYS, or of a state without key fields its one value.

    A key of text, a date or a time (ISO 8601) and binary (base64) are written as they are, others in JSON (7, true),
    and one of several fields as a JSON list. Ends with 3 where there is nothing under a key.
    """
    with _opened(topology, name, latest, place) as view:
        if not len(view.keyFields):
            if keys:
                raise StateKeyError(f"state {name!r} has no key fields: leave the keys out")
            found = [view.value]
            rows = [{"value": found[0]}]
        else:
            if not keys:
                raise click.UsageError(
                    f"state {name!r} is keyed by {', '.join(view.keyFields.names)}: say keys, or use scan"
                )
            found = view.multiGet([read_key(key, view.keyFields, name) for key in keys])
            rows = [{"key": key, "value": value} for key, value in zip(keys, found, strict=True)]
        show(rows, list(rows[0]), form)
    if None in found:
        click.get_current_context().exit(NOT_FOUND)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@place_options
@_isolation
@click.option("--limit", type=click.IntRange(min=0), help="So many entries at most.")
@format_option
def scan(topology: str, name: str, limit: int | None, latest: bool, form: str | None, **place: Any) -> None:
    """All entries, in no order."""
    with _opened(topology, name, latest, place) as view:
        table = view.toArrow(limit)
    show(_rows(table), table.column_names, form)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@click.argument("file", type=click.Path(dir_okay=False))
@place_options
@_isolation
@click.option("--format", "form", type=click.Choice(FORMATS), help="If the file's name does not tell it.")
@click.option("--overwrite", is_flag=True, help="Take the place of a file that is there.")
def export(topology: str, name: str, file: str, latest: bool, form: str | None, overwrite: bool, **place: Any) -> None:
    """Write all entries to FILE (.parquet, .csv or .jsonl), whole or not at all."""
    with _opened(topology, name, latest, place) as view:
        table = export_state(view, file, form, overwrite)
    told = {key.decode(): int(value) for key, value in (table.schema.metadata or {}).items()}
    as_of = "the latest values" if "asOfTxid" not in told else f"as of txid {told['asOfTxid']}"
    upto = f" to {told['toTxid']}" if "toTxid" in told else ""
    click.echo(f"{table.num_rows} entries of {topology}/{name}, {as_of}{upto}, in {file}", err=True)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@place_options
@click.option("--force", is_flag=True, help="Though a driver may hold it, or no log can tell: fence it out.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(topology: str, name: str, force: bool, yes: bool, **place: Any) -> None:
    """Delete a state and let the log forget it: the next start of its topology founds it anew, from there on.

    The log is found by --checkpoint or --log-url; a state on a server also needs --url.
    """
    where = read_places(**place)
    if not yes:
        click.confirm(f"Delete state {name!r} of topology {topology!r} for good?", abort=True, err=True)
    dropState(topology, name, force=force, **where)
    click.echo(f"dropped {topology}/{name}", err=True)


def _opened(
    topology: str, name: str, latest: bool, place: dict[str, Any]
) -> contextlib.AbstractContextManager[OpenedState]:
    return openState(topology, name, isolation="latest" if latest else "committed", **read_places(**place))


def _rows(table: pa.Table) -> list[dict[str, Any]]:
    columns = [to_python(column) for column in table.columns]
    return [dict(zip(table.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
