"""``trident explain module:topology``: the steps and guarantees of a topology that is not started."""

import click

from trident.cli.program_options import came, program_argument, start_options
from trident.cluster.program import load_topology
from trident.configuration.start_options import StartOptions
from trident.plan.guarantee import check_exactly_once


@click.command()
@program_argument
@start_options("engine", requireExactlyOnce="--require-exactly-once")
@click.option("--draw", "form", type=click.Choice(["svg", "mermaid", "dot", "json"]), help="Print a picture instead.")
def explain(program: str, options: StartOptions, form: str | None) -> None:
    """Print the steps of the TOPOLOGY in MODULE, its batch groups and stages, and the guarantee of each state.

    MODULE is imported from the current folder or the installed packages. The topology is not started, and no JVM runs.
    With --require-exactly-once the exit code is 1 if a state or an output guarantees less.
    """
    if form is not None and came("engine"):
        raise click.UsageError(
            "--engine changes only the text, and --draw prints a picture instead: give only one of them"
        )
    topology = load_topology(program)
    if options.get("requireExactlyOnce"):
        check_exactly_once(topology)
    if form is None:
        topology.explain(options.get("engine") or "spark")
    else:
        click.echo(topology.draw(form))
