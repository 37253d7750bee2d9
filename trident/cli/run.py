"""``trident run module:topology``: run a topology until SIGTERM, or stand by for another driver of it."""

import signal
import sys

import click

from trident.cli.serve import load_topology, log_to_stderr
from trident.log import RedisLog
from trident.plan.topology_protocol import EngineName


@click.command()
@click.argument("program", metavar="MODULE:TOPOLOGY")
@click.option("--name", default="topology", show_default=True, help="The topology's name.")
@click.option("--checkpoint", envvar="TRIDENT_CHECKPOINT", help="Its checkpointLocation. [env: TRIDENT_CHECKPOINT]")
@click.option("--log-url", help="The server of its log, if that is in Redis: redis://host, env:NAME or file:path.")
@click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log.")
@click.option("--engine", type=click.Choice(["spark", "embedded"]), default="spark", show_default=True)
@click.option("--standby", is_flag=True, help="Wait until the driver that holds the log has stopped or is silent.")
@click.option("--lease-secs", default=10.0, show_default=True, help="The seconds of silence that a standby waits for.")
@click.option("--serve", "port", type=click.IntRange(0), help="Serve the run over HTTP at this port (0: a free one).")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --serve: the address to listen at.")
@click.option("--token", help="With --serve: what clients must send: env:NAME or file:path that holds it.")
@click.option("--allowed-host", multiple=True, help="With --serve: another name under which clients may address it.")
@click.option("--insecure", is_flag=True, help="With --serve: let other machines ask without a token.")
@click.option("--log-json", is_flag=True, help="Write logs as lines of JSON.")
def run(
    program: str,
    name: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    engine: EngineName,
    standby: bool,
    lease_secs: float,
    port: int | None,
    host: str,
    token: str | None,
    allowed_host: tuple[str, ...],
    insecure: bool,
    log_json: bool,
) -> None:
    """Run the TOPOLOGY in MODULE until SIGTERM or Ctrl-C, which stop it in good order: exit code 0.

    If the topology fails, or another driver takes it over, the exit code is 1. MODULE is imported from the current
    folder or the installed packages.
    """
    if token is not None and not token.startswith(("env:", "file:")):
        raise click.UsageError("--token: other users of the machine see a command line; write env:NAME or file:path")
    log_to_stderr(log_json, audit=False)
    topology = load_topology(program)
    log = None if log_url is None else RedisLog(log_url, prefix=log_prefix)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    with topology.start(
        engine=engine, name=name, checkpointLocation=checkpoint, log=log, standby=standby, leaseSecs=lease_secs
    ) as running:
        if port is not None:
            server = running.serve(port, host=host, token=token, allowedHosts=allowed_host, insecure=insecure)
            click.echo(f"topology {name!r} is served at {server.url}", err=True)
        running.awaitTermination()
