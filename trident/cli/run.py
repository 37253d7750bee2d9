"""``trident run module:topology``: run a topology until SIGTERM, or wait as a standby for its driver."""

import contextlib
import os
import signal
import sys

import click

from trident.cli.given_options import given_options
from trident.cli.program_options import (
    ClientArguments,
    ProgramArguments,
    SparkArguments,
    came,
    client_options,
    log_option,
    log_to_stderr,
    program_options,
    set_option,
    spark_options,
    start_options,
)
from trident.cluster.driver_session import driver_session
from trident.cluster.program import load_topology
from trident.cluster.spark_confs import check_confs
from trident.cluster.submission import check_spark
from trident.configuration.layers import PROFILE, configured
from trident.configuration.start_options import StartOptions


@click.command()
@program_options
@start_options("engine", "leaseSecs", standby="--standby", active="--inactive")
@set_option
@spark_options
@click.option("--serve", "port", type=click.IntRange(0), help="Serve the run over HTTP at this port (0: a free one).")
@client_options
@log_option
def run(
    topology: ProgramArguments,
    options: StartOptions,
    settings: tuple[str, ...],
    spark: SparkArguments,
    port: int | None,
    clients: ClientArguments,
    log_json: bool,
) -> None:
    """Run the TOPOLOGY in MODULE until SIGTERM or Ctrl-C, which stop it cleanly with exit code 0.

    If the topology fails, or another driver takes it over, the exit code is 1. MODULE is imported from the current
    folder or the installed packages. Options that are left out come from the environment
    (TRIDENT_START_MAX_ATTEMPTS=3) and trident.toml; `trident config` lists them. --host and the options after it are
    for --serve.
    """
    if port is None and came("host", "token", "allowed_host", "insecure"):
        raise click.UsageError(
            "--host, --token, --allowed-host and --insecure are options of --serve: also give --serve"
        )
    log_to_stderr(log_json)
    if spark.profile is not None:
        os.environ[PROFILE] = spark.profile
    given, confs = given_options(topology, options, settings), spark.settings
    check_confs(confs)
    own = spark.master is not None or confs
    if own:
        check_spark(given.get("engine") or configured(topology.name)["engine"].value, spark.master, confs)
    program = load_topology(topology.program)
    end_by_signals()
    with contextlib.ExitStack() as opened:
        session = opened.enter_context(driver_session(topology.name, spark.master, confs)) if own else None
        started = program.start(session, name=topology.name, **given)
        running = opened.enter_context(started)
        if port is not None:
            server = running.serve(
                port,
                host=clients.host,
                token=clients.token,
                allowedHosts=clients.allowed_host,
                insecure=clients.insecure,
            )
            click.echo(f"topology {topology.name!r} is served at {server.url}", err=True)
        running.awaitTermination()


def end_by_signals() -> None:
    """Let SIGTERM, Ctrl-C and a closed terminal end the program with code 0, after a clean stop of its topology.

    A program that `nohup` started continues without its terminal.
    """
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if number is not signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, lambda *_: sys.exit(0))
