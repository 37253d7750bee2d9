"""The machine of the driver: open files, names, ports."""

import resource
import socket
from collections.abc import Iterable

from trident.base.finding import Finding
from trident.doctor.examined_setup import ExaminedSetup

LEAST_FILES = 1024
"""The least number of open files that a driver with Spark, a server and some states needs."""


def open_files(setup: ExaminedSetup) -> Iterable[Finding]:
    """Find a limit of open files that is too low."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < LEAST_FILES:
        todo = f"ulimit -n {max(LEAST_FILES, min(hard, 65536))} before the start; with systemd, LimitNOFILE=65536"
        matters = "connections and files share this limit: a busy driver fails with 'Too many open files'"
        yield Finding("ulimit -n", f"this process may open {soft} files at once", matters, todo)


def names(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for names and addresses by which this machine cannot reach itself."""
    yield from unresolved("localhost", "Add the line '127.0.0.1 localhost' to /etc/hosts")
    if not setup.on_spark:
        return
    own = setup.environment.get("SPARK_LOCAL_IP")
    if not own:
        yield from unresolved(socket.gethostname(), "Add the machine's name to /etc/hosts, or set SPARK_LOCAL_IP")
    elif reason := _not_ours(own):
        todo = "Unset SPARK_LOCAL_IP, or set it to an address of this machine (127.0.0.1 for local Spark)"
        found = f"this machine cannot listen at that address ({reason})"
        yield Finding(f"SPARK_LOCAL_IP={own}", found, "Spark does not start", todo)


def unresolved(name: str, todo: str) -> Iterable[Finding]:
    """Yield a finding if a name of this machine does not resolve.

    >>> [finding.found for finding in unresolved("no-such-host.invalid", "")]
    ['the name does not resolve']
    """
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        matters = "Spark's driver and local servers are addressed by this name: they do not start, or wait long"
        yield Finding(name, "the name does not resolve", matters, todo)


def port(setup: ExaminedSetup) -> Iterable[Finding]:
    """Check for another program at the port on which the run is to be served."""
    if setup.port and (reason := _not_ours(setup.host, setup.port)):
        todo = f"Give another --port (0: a free one), or end the program that has it (ss -ltnp 'sport = :{setup.port}')"
        yield Finding(
            f"{setup.host}:{setup.port}", f"cannot be listened at ({reason})", "the server cannot start", todo
        )


def _not_ours(host: str, port: int = 0) -> str | None:
    """Return why this process cannot listen at an address; None if it can."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, proto) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the server does
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return None
