"""``trident state list|get|scan|range|by|export|drop``."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import click

from trident.access.export import FORMATS, export_state, rows_of
from trident.access.listing import StateInfo, listStates
from trident.access.opened_topology import OpenedTopology, openTopology
from trident.access.opening import openState
from trident.access.removal import dropState
from trident.base.errors import StateKeyError
from trident.base.names import field_names
from trident.cli.as_of import as_of_option
from trident.cli.locations import files_at, location_options, read_locations
from trident.cli.output import format_option, show
from trident.cli.program_options import came, checked_program, log_at
from trident.cluster.program import load_topology
from trident.reads.as_of_argument import AsOfBatch
from trident.reads.committed_reads import Isolation
from trident.reads.keys_from_json import beginning_of_text, key_of_text
from trident.reads.state_view import StateView

NOT_FOUND = 3


def _isolation(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that choose the state's program, and the batch as of which a command reads."""
    help_ = "Read the state with this program, which has its location and presents its values."
    program = click.option("--program", metavar="MODULE:TOPOLOGY", callback=checked_program, help=help_)
    previous = click.option("--previous", is_flag=True, help="Read as of the batch before the last committed one.")
    latest = click.option("--latest", is_flag=True, help="Read the last written values, committed or not.")
    return program(latest(previous(as_of_option(command))))


@click.group()
def state() -> None:
    """List, read, export and drop states by their names. Reading takes no lease and disturbs no driver."""


@state.command("list")
@click.argument("topology", required=False)
@location_options
@format_option
def list_(topology: str | None, form: str | None, **location: Any) -> None:
    """List the states of all topologies or one."""
    places = read_locations(**location)
    for files in ("filesLocation", "filesStorage"):  # the log lists the states
        del places[files]
    states = listStates(topology=topology, **places)
    if not states:
        folder = location["checkpoint"]
        missing = folder is not None and not Path(folder).is_dir()
        click.echo(f"no states: there is no folder {folder}" if missing else "no states there", err=True)
        return
    show([info.asDict() for info in states], list(StateInfo.__dataclass_fields__), form)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@click.argument("keys", nargs=-1)
@location_options
@_isolation
@format_option
def get(
    topology: str, name: str, keys: tuple[str, ...], latest: bool, previous: bool, form: str | None, **location: Any
) -> None:
    """Print the values of KEYS, or the one value of a state without key fields.

    Write keys that are strings, dates or times (ISO 8601) or binary (base64) without quotes, other keys as JSON (7,
    true), and a key of several fields as a JSON list. The exit code is 3 if a key has no value.
    """
    with _open(topology, name, latest, previous, location) as view:
        if not len(view.keyFields):
            if keys:
                raise StateKeyError(f"state {name!r} has no key fields: remove the keys")
            values = [view.value]
            rows = [{"value": values[0]}]
        else:
            if not keys:
                raise click.UsageError(
                    f"state {name!r} is keyed by {', '.join(view.keyFields.names)}: give keys, or use scan"
                )
            values = view.multiGet([key_of_text(key, view.keyFields, name) for key in keys])
            rows = [{"key": key, "value": value} for key, value in zip(keys, values, strict=True)]
        show(rows, list(rows[0]), form)
    if None in values:
        click.get_current_context().exit(NOT_FOUND)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@location_options
@_isolation
@click.option("--limit", type=click.IntRange(min=0), help="The most entries to print.")
@format_option
def scan(
    topology: str, name: str, limit: int | None, latest: bool, previous: bool, form: str | None, **location: Any
) -> None:
    """Print all entries, in no order."""
    with _open(topology, name, latest, previous, location) as view:
        table = view.toArrow(limit)
    show(rows_of(table), table.column_names, form)


@state.command("range")
@click.argument("topology")
@click.argument("name", metavar="STATE")
@location_options
@_isolation
@click.option("--low", help="The first key of the range.")
@click.option("--high", help="The first key after the range.")
@click.option("--begins", help="The beginning of the keys, instead of --low and --high.")
@click.option("--limit", type=click.IntRange(min=1), help="The most entries to print.")
@format_option
def range_(
    topology: str,
    name: str,
    low: str | None,
    high: str | None,
    begins: str | None,
    limit: int | None,
    latest: bool,
    previous: bool,
    form: str | None,
    **location: Any,
) -> None:
    """Print the entries of a range of keys, in the order of the keys.

    Write the ends as `get` takes keys; for several key fields a JSON list of the first ones.
    """
    if begins is not None and (low is not None or high is not None):
        raise click.UsageError("--begins cannot be combined with --low or --high")
    with _open(topology, name, latest, previous, location) as view:
        first, last, start = (
            None if text is None else beginning_of_text(text, view.keyFields, name) for text in (low, high, begins)
        )
        found = view.range(first, last, limit=limit) if begins is None else view.prefix(start, limit=limit)
        table = found.toArrow()
    show(rows_of(table), table.column_names, form)


@state.command("by")
@click.argument("topology")
@click.argument("name", metavar="STATE")
@click.argument("fields", metavar="FIELDS")
@click.argument("value")
@location_options
@_isolation
@click.option("--limit", type=click.IntRange(min=1), help="The most entries to print.")
@format_option
def by(
    topology: str,
    name: str,
    fields: str,
    value: str,
    limit: int | None,
    latest: bool,
    previous: bool,
    form: str | None,
    **location: Any,
) -> None:
    """Print the entries with VALUE in FIELDS, by which the state has an index (index= of its verb).

    Write the value as `get` takes keys; for several fields, separated by commas, write a JSON list.
    """
    with _open(topology, name, latest, previous, location) as view:
        index = view.index(field_names(fields))
        table = view.by(fields, key_of_text(value, index.fields, name), limit=limit).toArrow()
    show(rows_of(table), table.column_names, form)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@click.argument("file", type=click.Path(dir_okay=False))
@location_options
@_isolation
@click.option(
    "--format", "form", type=click.Choice(FORMATS), help="The format, if the file's suffix does not determine it."
)
@click.option("--overwrite", is_flag=True, help="Replace a file that exists.")
def export(
    topology: str,
    name: str,
    file: str,
    latest: bool,
    previous: bool,
    form: str | None,
    overwrite: bool,
    **location: Any,
) -> None:
    """Write all entries to FILE (.parquet, .csv or .jsonl), completely or not at all."""
    with _open(topology, name, latest, previous, location) as view:
        table = export_state(view, file, form, overwrite)
    txids = {key.decode(): int(value) for key, value in (table.schema.metadata or {}).items()}
    first = f"as of txid {txids['asOfTxid']}" if "asOfTxid" in txids else "the latest values"
    last = f" to {txids['toTxid']}" if "toTxid" in txids else ""
    click.echo(f"{table.num_rows} entries of {topology}/{name}, {first}{last}, in {file}", err=True)


@state.command()
@click.argument("topology")
@click.argument("name", metavar="STATE")
@location_options
@click.option(
    "--force", is_flag=True, help="Drop it even if a driver may hold it, or without a log; fence that driver out."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(topology: str, name: str, force: bool, yes: bool, **location: Any) -> None:
    """Delete a state, also from the log: the next start of its topology makes an empty state, and continues from there.

    Give the log by --checkpoint or --log-url; a state in Redis also needs --url.
    """
    arguments = read_locations(**location)
    if not yes:
        click.confirm(f"Delete state {name!r} of topology {topology!r} permanently?", abort=True, err=True)
    dropState(topology, name, force=force, **arguments)
    click.echo(f"dropped {topology}/{name}", err=True)


def _open(
    topology: str, name: str, latest: bool, previous: bool, location: dict[str, Any]
) -> AbstractContextManager[StateView]:
    named: AsOfBatch | None = location.pop("as_of")
    program: str | None = location.pop("program")
    if latest + previous + (named is not None) > 1:
        raise click.UsageError("--latest, --previous and --as-of contradict each other; give one of them")
    isolation: Isolation = "latest" if latest else "committed"
    asOf = "previous" if previous else named
    if program is not None:
        return _in_program(program, topology, location, lambda opened: opened.state(name, isolation, asOf))
    return openState(topology, name, isolation=isolation, asOf=asOf, **read_locations(**location))


@contextmanager
def _in_program(
    program: str, topology: str, location: dict[str, Any], view: Callable[[OpenedTopology], StateView]
) -> Iterator[StateView]:
    """Yield a state at the location that its program names, such as a Delta table, a database or a user's store."""
    if location.pop("url") is not None and came("url"):
        raise click.UsageError("--program determines the location of the state: remove --url")
    del location["prefix"]
    log = log_at(location.pop("log_url"), location.pop("log_prefix"))
    files = files_at(location.pop("files_location"), location.pop("files_storage"))
    checkpoint: str | None = location.pop("checkpoint")
    opened = openTopology(load_topology(program), name=topology, checkpointLocation=checkpoint, log=log, **files)
    with opened:
        yield view(opened)
