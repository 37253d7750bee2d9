"""The options of a command that queries a server: token, certificates and time limit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from trident.cli.program_options import bundled
from trident.cli.secret_types import Secret
from trident.client.drpc_client import DRPCClient

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--token", type=Secret(), help="The server's token: env:NAME or file:path."),
    click.option(
        "--ca",
        help="The authority that signed the server's certificate, a PEM file. [default: the system's authorities]",
    ),
    click.option("--cert", help="The certificate of this client, a PEM file, if the server requires one."),
    click.option("--key", help="The key of --cert, a PEM file."),
    click.option("--timeout", default=30.0, show_default=True, help="Seconds to wait for an answer."),
)


@dataclass(frozen=True, slots=True)
class ServerArguments:
    """The server options on a command line."""

    token: str | None
    ca: str | None
    cert: str | None
    key: str | None
    timeout: float

    def client(self, url: str) -> DRPCClient:
        """Return a client of the server at a URL. Raises UsageError for half a certificate."""
        if (self.cert is None) != (self.key is None):
            raise click.UsageError("a certificate needs both --cert and --key")
        shown = None if self.cert is None or self.key is None else (self.cert, self.key)
        return DRPCClient(url, token=self.token, timeout=self.timeout, ca=self.ca, cert=shown)


def server_options(command: _F) -> _F:
    """Add the options of the server to query, as the parameter `server`."""
    return bundled(command, _OPTIONS, ServerArguments, "server")
