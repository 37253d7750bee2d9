"""``trident tag create|list|drop``."""

from typing import Any

import click

from trident.access.opened_topology import OpenedTopology, openTopology
from trident.cli.as_of import as_of_option
from trident.cli.locations import files_options
from trident.cli.output import format_option, show
from trident.cli.program_options import ProgramArguments, program_options
from trident.cluster.program import load_topology
from trident.reads.tagging import Tag


@click.group()
def tag() -> None:
    """Keep batches of a topology under names, list and drop them. The topology may run, or stand still."""


@tag.command()
@program_options
@click.argument("tag", metavar="TAG")
@as_of_option
@click.option("--state", "states", multiple=True, help="A state to tag, instead of all.")
@files_options
def create(
    topology: ProgramArguments, tag: str, as_of: int | str | None, states: tuple[str, ...], files: dict[str, Any]
) -> None:
    """Keep the last committed batch, or that of --as-of, as TAG: state get --as-of tag:TAG reads it."""
    with _opened(topology, files) as opened:
        _print([opened.tag(tag, as_of, states=states or None)], "json")


@tag.command("list")
@program_options
@files_options
@format_option
def list_(topology: ProgramArguments, files: dict[str, Any], form: str | None) -> None:
    """List the tags of a topology."""
    with _opened(topology, files) as opened:
        found = opened.tags()
    if not found:
        click.echo(f"no tags of {topology.name}", err=True)
        return
    _print(found, form)


@tag.command()
@program_options
@click.argument("tag", metavar="TAG")
@files_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(topology: ProgramArguments, tag: str, files: dict[str, Any], yes: bool) -> None:
    """Drop a TAG: its batch is kept no longer than others."""
    if not yes:
        click.confirm(f"Drop tag {tag!r} of topology {topology.name!r} permanently?", abort=True, err=True)
    with _opened(topology, files) as opened:
        opened.dropTag(tag)
    click.echo(f"dropped tag {tag} of {topology.name}", err=True)


def _opened(topology: ProgramArguments, files: dict[str, Any]) -> OpenedTopology:
    return openTopology(
        load_topology(topology.program),
        name=topology.name,
        checkpointLocation=topology.checkpoint,
        log=topology.log,
        **files,
    )


def _print(tags: list[Tag], form: str | None) -> None:
    show([each.asDict() for each in tags], list(Tag.__dataclass_fields__), form)
