"""``trident serve module:topology``: DRPC functions and states over HTTP, without the topology's driver."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import threading
from collections.abc import Sequence
from multiprocessing.process import BaseProcess
from typing import Any

import click

from trident.access.opened_topology import openTopology
from trident.base.errors import TopologyError
from trident.cli.locations import files_at, files_options
from trident.cli.program_options import client_options, log_at, log_option, log_to_stderr, program_options
from trident.cli.run import end_by_signals
from trident.cluster.program import load_topology
from trident.server.http_server import bind, rules_for, url_of, uvicorn_server
from trident.server.limits import Limits
from trident.server.tls import TLS


@click.command()
@program_options
@client_options
@click.option("--port", default=8090, show_default=True, help="The port; 0 takes a free one.")
@click.option("--tls-cert", help="The server's certificate, a PEM file: the server answers by HTTPS.")
@click.option("--tls-key", help="The key of --tls-cert, a PEM file without a password.")
@click.option("--tls-client-ca", help="Who signs the certificates that clients must then bring, a PEM file.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1), help="How many processes answer.")
@files_options
@log_option
@click.option("--audit", is_flag=True, help="Log a line for each request: who, what, the status, the time.")
def serve(
    program: str,
    name: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    host: str,
    port: int,
    token: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    tls_client_ca: str | None,
    allowed_host: tuple[str, ...],
    insecure: bool,
    workers: int,
    files_location: str | None,
    files_storage: str | None,
    log_json: bool,
    audit: bool,
) -> None:
    """Answer the DRPC functions and states of the TOPOLOGY in MODULE over HTTP, without its driver.

    The topology may run elsewhere, or be stopped and started again meanwhile. MODULE is imported from the current
    folder or the installed packages, and its code runs here.
    """
    tls = tls_of(tls_cert, tls_key, tls_client_ca)
    log_to_stderr(log_json, audit)
    load_topology(program)  # errors of the program show here, before a worker begins
    rules_for(host, token, allowed_host, insecure, tls=tls)
    listening = bind(host, port)
    who = (host, token, allowed_host, insecure, tls)
    settings = (
        program,
        name,
        checkpoint,
        log_url,
        log_prefix,
        *who,
        log_json,
        audit,
        files_at(files_location, files_storage),
    )
    click.echo(f"topology {name!r} is served at {url_of(listening, tls)}", err=True)
    if workers == 1:
        answer(listening, *settings)
        return
    end_by_signals()
    context = multiprocessing.get_context("spawn")
    keep([context.Process(target=answer, args=(listening, *settings)) for _ in range(workers)])


def keep(processes: Sequence[BaseProcess]) -> None:
    """Start processes that answer, and end all of them when one ends or this process is asked to end.

    Raises TopologyError if one ended with an error: a supervisor then starts all of them again.
    """
    try:
        for process in processes:
            process.start()
        ready = multiprocessing.connection.wait([process.sentinel for process in processes])
        ended = [process for process in processes if process.sentinel in ready]
        for process in ended:
            process.join()  # its sentinel is ready a moment before its exit code
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
        for process in processes:
            if process.pid is not None:
                process.join()
    if any(process.exitcode for process in ended):
        raise TopologyError("a process that answered ended with an error; its own lines above say which")


def _end_with_parent() -> None:
    """Let this process end in good order when the one that started it is gone: nothing else would end it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="trident-parent", daemon=True).start()


def answer(
    listening: socket.socket,
    program: str,
    name: str,
    checkpoint: str | None,
    log_url: str | None,
    log_prefix: str,
    host: str,
    token: str | None,
    allowed_host: tuple[str, ...],
    insecure: bool,
    tls: TLS | None,
    log_json: bool,
    audit: bool,
    files: dict[str, Any],
) -> None:
    """Open the topology, and answer on a listening socket until a signal or the parent's end ends the process."""
    _end_with_parent()
    log_to_stderr(log_json, audit)
    log = log_at(log_url, log_prefix)
    topology = load_topology(program)
    with openTopology(topology, name=name, checkpointLocation=checkpoint, log=log, **files) as opened:
        rules = rules_for(host, token, allowed_host, insecure, tls=tls)
        uvicorn_server(opened, rules, Limits(), tls).run(sockets=[listening])


def tls_of(cert: str | None, key: str | None, client_ca: str | None) -> TLS | None:
    """Return the files of TLS. Raises UsageError if some are missing."""
    if cert is None and key is None and client_ca is None:
        return None
    if cert is None or key is None:
        raise click.UsageError("TLS needs both --tls-cert and --tls-key")
    return TLS(cert, key, client_ca)
