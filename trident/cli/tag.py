"""``trident tag create|list|drop``."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from trident.access.opened_topology import OpenedTopology
from trident.cli.as_of import as_of_option
from trident.cli.output import format_option, show
from trident.cli.query_target import SourceArguments, source_options
from trident.cli.server_options import ServerArguments
from trident.client.drpc_client import DRPCClient
from trident.reads.tagging import Tag


@click.group()
def tag() -> None:
    """Keep batches of a topology under names, list and drop them.

    The command uses the server at URL, or opens the states of the TOPOLOGY in MODULE, whether or not its driver runs.
    """


@tag.command()
@source_options
@click.argument("tag", metavar="TAG")
@as_of_option
@click.option("--state", "states", multiple=True, help="A state to tag, instead of all.")
def create(
    source: SourceArguments, server: ServerArguments, tag: str, as_of: int | str | None, states: tuple[str, ...]
) -> None:
    """Keep the last committed batch, or that of --as-of, as TAG; `state get --as-of tag:TAG` reads it."""
    with _held(source, server) as held:
        _print([held.tag(tag, as_of, states=states or None)], "json")


@tag.command("list")
@source_options
@format_option
def list_(source: SourceArguments, server: ServerArguments, form: str | None) -> None:
    """List the tags of a topology."""
    with _held(source, server) as held:
        found = held.tags()
    if not found:
        click.echo(f"no tags of {source.shown}", err=True)
        return
    _print(found, form)


@tag.command()
@source_options
@click.argument("tag", metavar="TAG")
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(source: SourceArguments, server: ServerArguments, tag: str, yes: bool) -> None:
    """Drop a TAG: its batch is then kept no longer than others."""
    if not yes:
        click.confirm(f"Drop tag {tag!r} of {source.shown!r} permanently?", abort=True, err=True)
    with _held(source, server) as held:
        held.dropTag(tag)
    click.echo(f"dropped tag {tag} of {source.shown}", err=True)


def _held(source: SourceArguments, server: ServerArguments) -> DRPCClient | OpenedTopology:
    """Return a client of the server, or the opened topology; both have the same methods for tags."""
    return source.client(server) if source.isServer else source.opened()


def _print(tags: Sequence[Tag | Mapping[str, Any]], form: str | None) -> None:
    rows = [each.asDict() if isinstance(each, Tag) else each for each in tags]
    show(rows, list(Tag.__dataclass_fields__), form)
