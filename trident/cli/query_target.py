"""The source of a command that queries a server, or opens a topology beside its driver: URL or MODULE:TOPOLOGY."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from trident.access.opened_topology import OpenedTopology, openTopology
from trident.cli.locations import FILES_OPTIONS, files_at
from trident.cli.program_options import LOCATION, bundled, came, checked_program, log_at
from trident.cli.server_options import ServerArguments, server_options
from trident.client.drpc_client import DRPCClient
from trident.cluster.program import load_topology

_F = TypeVar("_F", bound=Callable[..., Any])

_SERVERS = ("http://", "https://")


def _checked(ctx: click.Context, param: click.Parameter, value: str) -> str | None:
    return value if value.startswith(_SERVERS) else checked_program(ctx, param, value)


_OPTIONS = (
    click.argument("source", metavar="URL|MODULE:TOPOLOGY", callback=_checked),
    *LOCATION,
    *FILES_OPTIONS,
)


@dataclass(frozen=True, slots=True)
class SourceArguments:
    """The server or the program that a command line names, and the location of the program's topology."""

    source: str
    name: str
    checkpoint: str | None
    log_url: str | None
    log_prefix: str
    files_location: str | None
    files_storage: str | None

    @property
    def isServer(self) -> bool:
        """True if the source is the URL of a server."""
        return self.source.startswith(_SERVERS)

    @property
    def shown(self) -> str:
        """The source as messages name it."""
        return self.source if self.isServer else self.name

    def client(self, server: ServerArguments) -> DRPCClient:
        """Return a client of the server. Raises UsageError if the command line has an option of a program."""
        _refuse(
            "a program", self.source, "name", "checkpoint", "log_url", "log_prefix", "files_location", "files_storage"
        )
        return server.client(self.source)

    def opened(self) -> OpenedTopology:
        """Return the topology of the program, opened. Raises UsageError if the command line has an option of a server.

        It need not run.
        """
        _refuse("a server", self.source, "token", "ca", "cert", "key")
        return openTopology(
            load_topology(self.source),
            name=self.name,
            checkpointLocation=self.checkpoint,
            log=log_at(self.log_url, self.log_prefix),
            **files_at(self.files_location, self.files_storage),
        )


def source_options(command: _F) -> _F:
    """Add the argument URL|MODULE:TOPOLOGY and the options of both, as the parameters `source` and `server`."""
    return bundled(server_options(command), _OPTIONS, SourceArguments, "source")


def _refuse(of: str, source: str, *parameters: str) -> None:
    """Raise UsageError if one of these options is on the command line, because it would be ignored."""
    if given := [f"--{name.replace('_', '-')}" for name in parameters if came(name)]:
        raise click.UsageError(f"{', '.join(given)}: this is an option of {of}, but {source!r} is not one")
