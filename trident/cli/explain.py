"""``trident explain module:topology``: the steps and guarantees of a topology that is not started."""

import click

from trident.cli.program_options import ProgramArguments, came, program_options, start_options
from trident.cluster.program import load_topology
from trident.configuration.start_options import StartOptions
from trident.plan.guarantee import check_exactly_once


@click.command()
@program_options
@start_options("engine", requireExactlyOnce="--require-exactly-once")
@click.option("--draw", "form", type=click.Choice(["svg", "mermaid", "dot", "json"]), help="Print a picture instead.")
def explain(topology: ProgramArguments, options: StartOptions, form: str | None) -> None:
    """Print the steps of the TOPOLOGY in MODULE, its batch groups and stages, and the guarantee of each state.

    MODULE is imported from the current folder or the installed packages. The topology is not started, and no JVM runs.
    With --checkpoint or --log-url, more lines say what a start there would do with each stored state. With
    --require-exactly-once the exit code is 1 if a state or an output guarantees less.
    """
    if form is not None and came("engine"):
        raise click.UsageError(
            "--engine changes only the text, and --draw prints a picture instead: give only one of them"
        )
    program = load_topology(topology.program)
    if options.get("requireExactlyOnce"):
        check_exactly_once(program)
    if form is None:
        engine, log = options.get("engine") or "spark", topology.log
        program.explain(engine, name=topology.name, checkpointLocation=topology.checkpoint, log=log)
    else:
        click.echo(program.draw(form))
