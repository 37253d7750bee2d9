"""``trident serve module:topology``: DRPC functions and states over HTTP, without the topology's driver."""

import multiprocessing
import multiprocessing.connection
import os
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

import click

from trident.access.opened_topology import OpenedTopology, openTopology
from trident.base.errors import TopologyError
from trident.cli.locations import files_options
from trident.cli.program_options import (
    ClientArguments,
    ProgramArguments,
    TlsArguments,
    client_options,
    log_option,
    log_to_stderr,
    program_options,
    tls_options,
)
from trident.cli.run import end_by_signals
from trident.cluster.program import load_topology
from trident.server.access_rules import AccessRules
from trident.server.http_server import bind, rules_for, url_of, uvicorn_server
from trident.server.limits import Limits
from trident.server.tls import TLS


@click.command()
@program_options
@client_options
@click.option("--port", default=8090, show_default=True, help="The port; 0 takes a free one.")
@tls_options
@click.option(
    "--workers", default=1, show_default=True, type=click.IntRange(1), help="The number of processes that answer."
)
@files_options
@log_option
@click.option("--audit", is_flag=True, help="Log a line for each request: client, request, status, duration.")
def serve(
    topology: ProgramArguments,
    clients: ClientArguments,
    port: int,
    files_of_tls: TlsArguments,
    workers: int,
    files: dict[str, Any],
    log_json: bool,
    audit: bool,
) -> None:
    """Answer the DRPC functions and states of the TOPOLOGY in MODULE over HTTP, without its driver.

    The topology may run elsewhere, or be stopped and started again meanwhile. MODULE is imported from the current
    folder or the installed packages, and its code runs here.
    """
    tls = files_of_tls.tls
    log_to_stderr(log_json, audit)
    _rules(clients, tls)
    listening = bind(clients.host, port)
    answering = Answering(topology, clients, tls, files, log_json, audit)
    with _opened(answering):
        pass  # raises errors of the log and the states here, before an address is printed
    click.echo(f"topology {topology.name!r} is served at {url_of(listening, tls)}", err=True)
    if workers == 1:
        answer(listening, answering)
        return
    end_by_signals()
    context = multiprocessing.get_context("spawn")
    keep([context.Process(target=answer, args=(listening, answering)) for _ in range(workers)])


@dataclass(frozen=True, slots=True)
class Answering:
    """The topology that a server process serves, the access of its clients, and its logs."""

    topology: ProgramArguments
    clients: ClientArguments
    tls: TLS | None
    files: dict[str, Any]
    log_json: bool
    audit: bool


def _rules(clients: ClientArguments, tls: TLS | None) -> AccessRules:
    return rules_for(clients.host, clients.token, clients.allowed_host, clients.insecure, tls=tls)


def keep(processes: Sequence[BaseProcess]) -> None:
    """Start the server processes, and end all of them when one ends or this process is asked to end.

    Raises TopologyError if one ended with an error, so that a supervisor restarts all of them.
    """
    try:
        for process in processes:
            process.start()
        ready = multiprocessing.connection.wait([process.sentinel for process in processes])
        ended = [process for process in processes if process.sentinel in ready]
        for process in ended:
            process.join()  # a process's sentinel is ready a moment before its exit code
    finally:
        for process in processes:
            if process.pid is not None:
                process.terminate()
        for process in processes:
            if process.pid is not None:
                process.join()
    if any(process.exitcode for process in ended):
        raise TopologyError("a server process ended with an error; see its output above")


def _end_with_parent() -> None:
    """Make this process end cleanly when its parent has ended, because nothing else would end it."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def end() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end, name="trident-parent", daemon=True).start()


def _opened(what: Answering) -> OpenedTopology:
    named = what.topology
    place: Any = {"name": named.name, "checkpointLocation": named.checkpoint, "log": named.log, **what.files}
    return openTopology(load_topology(named.program), **place)


def answer(listening: socket.socket, what: Answering) -> None:
    """Open the topology, and answer on a listening socket until a signal or the parent's end ends the process."""
    _end_with_parent()
    log_to_stderr(what.log_json, what.audit)
    with _opened(what) as opened:
        uvicorn_server(opened, _rules(what.clients, what.tls), Limits(), what.tls).run(sockets=[listening])
