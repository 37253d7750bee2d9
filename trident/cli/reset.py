"""``trident reset module:topology``: drop the log of a topology and all states that its program declares."""

from typing import Any

import click

from trident.cli.locations import files_options
from trident.cli.program_options import ProgramArguments, program_options
from trident.cluster.program import load_topology


@click.command()
@program_options
@files_options
@click.option(
    "--force", is_flag=True, help="Also without a log there, or if a state or file belongs to another log; see `reset`."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
def reset(topology: ProgramArguments, files: dict[str, Any], force: bool, yes: bool) -> None:
    """Delete the log and all states of the TOPOLOGY in MODULE: the next start begins at the sources' beginning.

    A driver that still runs on that log is fenced out. MODULE is imported from the current folder or the installed
    packages, and its code runs here.
    """
    program = load_topology(topology.program)
    if not yes:
        text = f"Delete the log and all states of topology {topology.name!r} permanently?"
        click.confirm(text, abort=True, err=True)
    program.reset(topology.name, topology.checkpoint, log=topology.log, force=force, **files)
    click.echo(f"reset {topology.name}", err=True)
