"""``trident run module:topology``: run a topology until SIGTERM, or stand by for another driver of it."""

import contextlib
import os
import signal
import sys
from typing import Any

import click

from trident.cli.program_options import (
    came,
    client_options,
    engine_option,
    log_at,
    log_option,
    log_to_stderr,
    pairs,
    program_options,
    spark_options,
)
from trident.cluster.driver_session import driver_session
from trident.cluster.program import load_topology
from trident.cluster.spark_confs import check_confs
from trident.cluster.submission import check_spark
from trident.configuration.layers import PROFILE, configured
from trident.plan.topology_protocol import EngineName


@click.command()
@program_options
@engine_option
@spark_options
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
    profile: str | None,
    master: str | None,
    confs: tuple[str, ...],
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
    the options after it are for --serve.
    """
    if port is None and came("host", "token", "allowed_host", "insecure"):
        raise click.UsageError("--host, --token, --allowed-host and --insecure are for --serve: give that, too")
    log_to_stderr(log_json)
    if profile is not None:
        os.environ[PROFILE] = profile
    settings = pairs("--spark-conf", confs)
    check_confs(settings)
    if master is not None or settings:
        check_spark(engine or configured(name)["engine"].value, master, settings)
    topology = load_topology(program)
    end_by_signals()
    given = {
        "log": log_at(log_url, log_prefix),
        "standby": standby or None,
        "leaseSecs": lease_secs,
        "active": False if inactive else None,
    }
    options: Any = {option: value for option, value in given.items() if value is not None}
    with contextlib.ExitStack() as opened:
        own = master is not None or settings
        spark = opened.enter_context(driver_session(name, master, settings)) if own else None
        started = topology.start(spark, engine=engine, name=name, checkpointLocation=checkpoint, **options)
        running = opened.enter_context(started)
        if port is not None:
            server = running.serve(port, host=host, token=token, allowedHosts=allowed_host, insecure=insecure)
            click.echo(f"topology {name!r} is served at {server.url}", err=True)
        running.awaitTermination()


def end_by_signals() -> None:
    """Let SIGTERM, Ctrl-C and a closed terminal end the program with code 0, after its topology stopped in good order.

    A program that `nohup` started continues without its terminal.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: sys.exit(0))
