"""``trident positions``: how far the streams of a topology have read their sources."""

import click

from trident.access.positions import listPositions
from trident.cli.output import format_option, show
from trident.cli.program_options import checked_program, log_at, log_place_options
from trident.cluster.program import load_topology


@click.command()
@click.argument("topology", required=False)
@log_place_options
@click.option(
    "--program",
    metavar="MODULE:TOPOLOGY",
    callback=checked_program,
    help="The program of the topology: its own spouts then describe their positions.",
)
@format_option
def positions(
    topology: str | None,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    program: str | None,
    form: str | None,
) -> None:
    """Print how far the streams of all topologies or one have read their sources, from the log.

    It has a line for each part of a source: a partition with its next offset, a file with the bytes that were read. The
    topologies may run or be stopped. Batches after `committed`, up to `frozen`, are in the log and are committed next.
    """
    if checkpoint is None and log_url is None:
        raise click.UsageError("give the location of the log: --checkpoint or --log-url")
    listed = listPositions(
        checkpoint,
        topology=topology,
        log=log_at(log_url, log_prefix),
        program=None if program is None else load_topology(program),
    )
    if not listed:
        click.echo("no streams there", err=True)
        return
    rows = [
        {**at.asDict(), "part": part, "position": position}
        for at in listed
        for part, position in at.position.items() or [(None, None)]
    ]
    show(rows, ["topology", "stream", "batchGroup", "committed", "frozen", "part", "position"], form)
