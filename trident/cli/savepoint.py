"""``trident savepoint create|list|drop``, ``trident fork`` and ``trident restore``."""

import contextlib
from typing import Any

import click

from trident.access.forking import dropSavepoint, forkTopology, listSavepoints
from trident.access.locations import read_location
from trident.access.restoring import restoreTopology
from trident.base.errors import LogError, SavepointError
from trident.cli.locations import files_options
from trident.cli.output import format_option, show
from trident.cli.program_options import ProgramArguments, came, log_at, log_option, log_to_stderr, program_options
from trident.cli.program_options import start_options as options_of_start
from trident.cli.secret_types import SecretUrl
from trident.cluster.program import load_topology
from trident.configuration.start_options import StartOptions
from trident.log import RedisLog
from trident.recovery.savepoint import SavepointInfo

_COLUMNS = list(SavepointInfo.__dataclass_fields__)

_checkpoint = click.option(
    "--checkpoint", envvar="TRIDENT_CHECKPOINT", help="The checkpointLocation. [env: TRIDENT_CHECKPOINT]"
)


@click.group()
def savepoint() -> None:
    """Take, list and drop named copies of topologies.

    `trident fork` creates another topology from a copy, and `trident restore` returns the topology itself to it.
    """


@savepoint.command()
@program_options
@click.argument("savepoint", metavar="SAVEPOINT")
@options_of_start("engine")
@files_options
@click.option(
    "--force", is_flag=True, help="Take the topology over even if a driver may hold it; fence that driver out."
)
@log_option
def create(
    topology: ProgramArguments,
    savepoint: str,
    options: StartOptions,
    files: dict[str, Any],
    force: bool,
    log_json: bool,
) -> None:
    """Take the SAVEPOINT of a stopped topology, by starting it briefly as INACTIVE, so that it reads nothing.

    A running program takes its own savepoint: running.savepoint(name).
    """
    log_to_stderr(log_json)
    program, log = load_topology(topology.program), topology.log
    options |= {"name": topology.name, "checkpointLocation": topology.checkpoint, "active": False}
    if log is not None:
        options["log"] = log
    options |= {key: value for key, value in files.items() if value is not None}  # type: ignore[typeddict-item]
    if not force:
        _check_free(topology)
    with program.start(**options) as running:
        info = running.savepoint(savepoint)
    show([info.asDict()], _COLUMNS, "json")


def _check_free(topology: ProgramArguments) -> None:
    """Raise SavepointError if a driver may hold the topology."""
    location = read_location(topology.checkpoint, topology.log, None, "trident")
    with contextlib.suppress(LogError), contextlib.closing(location.open_log_to_read(topology.name)) as log:
        lease = log.lease()
        if lease is not None and lease.token:
            raise SavepointError(
                f"a driver holds topology {topology.name!r} (epoch {lease.epoch}): it is running, or was killed. Take "
                f"the savepoint in its program, running.savepoint(name); or stop it first; if no driver is running, "
                f"or to fence it out, use --force. Nothing was changed"
            )


@savepoint.command("list")
@click.argument("topology")
@_checkpoint
@files_options
@format_option
def list_(topology: str, checkpoint: str | None, form: str | None, files: dict[str, Any]) -> None:
    """List the savepoints of a topology, the oldest first."""
    found = listSavepoints(topology, checkpoint, **files)
    if not found:
        click.echo(f"no savepoints of {topology}", err=True)
        return
    show([info.asDict() for info in found], _COLUMNS, form)


@savepoint.command()
@click.argument("topology")
@click.argument("name", metavar="SAVEPOINT")
@_checkpoint
@files_options
@click.option("--yes", is_flag=True, help="Do not ask.")
def drop(topology: str, name: str, checkpoint: str | None, yes: bool, files: dict[str, Any]) -> None:
    """Delete a savepoint. Topologies that were forked from it do not need it."""
    if not yes:
        click.confirm(f"Delete savepoint {name!r} of topology {topology!r} permanently?", abort=True, err=True)
    dropSavepoint(topology, name, checkpoint, **files)
    click.echo(f"dropped savepoint {name} of {topology}", err=True)


@click.command()
@click.argument("topology")
@click.argument("savepoint", metavar="SAVEPOINT")
@click.argument("name", metavar="FORK")
@_checkpoint
@files_options
@click.option("--to-checkpoint", help="The checkpointLocation of the fork.  [default: --checkpoint]")
@click.option("--to-log-url", type=SecretUrl(), help="The server of the fork's log, if its log is to be in Redis.")
@click.option("--to-log-prefix", default="trident", show_default=True, help="The prefix of that log.")
@click.option("--to-files-location", help="The filesLocation of the fork.  [default: --files-location]")
@click.option("--anew", multiple=True, help="A stream that reads from another source in the fork.")
@click.option(
    "--own-output",
    multiple=True,
    help="An output that writes elsewhere in the fork, although its name or location is the same.",
)
def fork(
    topology: str,
    savepoint: str,
    name: str,
    checkpoint: str | None,
    files: dict[str, Any],
    to_checkpoint: str | None,
    to_log_url: str | None,
    to_log_prefix: str,
    to_files_location: str | None,
    anew: tuple[str, ...],
    own_output: tuple[str, ...],
) -> None:
    """Create the topology FORK from a SAVEPOINT of another topology, which is not affected.

    Then start a program under the name FORK: trident run MODULE:TOPOLOGY --name FORK.
    """
    if to_log_url is None and came("to_log_prefix"):
        raise click.UsageError("--to-log-prefix is for a log in Redis: give --to-log-url, too")
    forkTopology(
        topology,
        savepoint,
        name,
        checkpoint,
        **files,
        toCheckpointLocation=to_checkpoint,
        toLog=None if to_log_url is None else RedisLog(to_log_url, prefix=to_log_prefix),
        toFilesLocation=to_files_location,
        anew=anew,
        ownOutputs=own_output,
    )
    click.echo(
        f"{name} continues from savepoint {savepoint} of {topology} when a program is started as {name}", err=True
    )


@click.command()
@click.argument("topology")
@click.argument("savepoint", metavar="SAVEPOINT")
@_checkpoint
@click.option("--log-url", type=SecretUrl(), help="The server of the topology's log, if its log is in Redis.")
@click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log.")
@files_options
@click.option("--anew", multiple=True, help="A stream that is to begin at the beginning of its source.")
@click.option("--keep-position", multiple=True, help="A stream that continues at its present position.")
@click.option("--force", is_flag=True, help="Also if a driver may hold the topology; fence that driver out.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def restore(
    topology: str,
    savepoint: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    files: dict[str, Any],
    anew: tuple[str, ...],
    keep_position: tuple[str, ...],
    force: bool,
    yes: bool,
) -> None:
    """Take a stopped TOPOLOGY back to its SAVEPOINT: positions and states. Outputs keep their results.

    The next start of the topology reads the tuples since the savepoint again.
    """
    log = log_at(log_url, log_prefix)
    if not yes:
        about = f"Replace the states of topology {topology!r} by those of savepoint {savepoint!r}?"
        click.confirm(about, abort=True, err=True)
    more: dict[str, Any] = {"log": log, **files, "anew": anew, "keepPositions": keep_position, "force": force}
    restoreTopology(topology, savepoint, checkpoint, **more)
    click.echo(f"{topology} continues from savepoint {savepoint} when a program is started as {topology}", err=True)
