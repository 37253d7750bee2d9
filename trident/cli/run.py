"""``trident run module:topology``: run a topology until SIGTERM, or stand by for another driver of it."""

import signal
import sys
from typing import Any

import click

from trident.cli.program_options import (
    check_secret,
    client_options,
    engine_option,
    log_at,
    log_option,
    log_to_stderr,
    program_options,
)
from trident.cluster.program import load_topology
from trident.plan.topology_protocol import EngineName


@click.command()
@program_options
@engine_option
@click.option("--standby", is_flag=True, help="Wait until the driver that holds the log has stopped or is silent.")
@click.option("--lease-secs", type=float, help="The seconds of silence that a standby waits for.  [default: 10]")
@click.option("--inactive", is_flag=True, help="Plan no batch; commit what is frozen, and answer.")
@click.option("--serve", "port", type=click.IntRange(0), help="Serve the run over HTTP at this port (0: a free one).")
@client_options
@log_option
def run(
    program: str,
    name: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    engine: EngineName | None,
    standby: bool,
    lease_secs: float | None,
    inactive: bool,
    port: int | None,
    host: str,
    token: str | None,
    allowed_host: tuple[str, ...],
    insecure: bool,
    log_json: bool,
) -> None:
    """Run the TOPOLOGY in MODULE until SIGTERM or Ctrl-C, which stop it in good order: exit code 0.

    If the topology fails, or another driver takes it over, the exit code is 1. MODULE is imported from the current
    folder or the installed packages. Options that are left out come from the environment and trident.toml. --host and
    the options behind it are for --serve.
    """
    check_secret("--token", token)
    log_to_stderr(log_json)
    topology = load_topology(program)
    end_by_signals()
    given = {
        "log": log_at(log_url, log_prefix),
        "standby": standby or None,
        "leaseSecs": lease_secs,
        "active": False if inactive else None,
    }
    options: Any = {option: value for option, value in given.items() if value is not None}
    with topology.start(engine=engine, name=name, checkpointLocation=checkpoint, **options) as running:
        if port is not None:
            server = running.serve(port, host=host, token=token, allowedHosts=allowed_host, insecure=insecure)
            click.echo(f"topology {name!r} is served at {server.url}", err=True)
        running.awaitTermination()


def end_by_signals() -> None:
    """Let SIGTERM and Ctrl-C end the program with exit code 0, after its topology has stopped in good order."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
