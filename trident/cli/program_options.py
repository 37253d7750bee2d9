"""The options that `trident run`, `serve` and `submit` share: the topology, its log, a server's clients, logging."""

import logging
from collections.abc import Callable
from typing import Any, TypeVar

import click

from trident.base.json_logs import JsonFormatter
from trident.log import RedisLog

_F = TypeVar("_F", bound=Callable[..., Any])


def _checked(ctx: click.Context, param: click.Parameter, value: str) -> str:
    module, _, attribute = value.partition(":")
    if not module or not attribute:
        raise click.BadParameter(f"{value!r}: expected module:topology, such as counts:topology")
    return value


_PROGRAM = (
    click.argument("program", metavar="MODULE:TOPOLOGY", callback=_checked),
    click.option("--name", default="topology", show_default=True, help="The topology's name."),
    click.option("--checkpoint", envvar="TRIDENT_CHECKPOINT", help="Its checkpointLocation. [env: TRIDENT_CHECKPOINT]"),
    click.option("--log-url", help="The server of its log, if that is in Redis: redis://host, env:NAME or file:path."),
    click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log."),
)

_CLIENTS = (
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at."),
    click.option("--token", help="What clients must send: env:NAME or file:path that holds it."),
    click.option("--allowed-host", multiple=True, help="Another name under which clients may address the server."),
    click.option("--insecure", is_flag=True, help="Let other machines ask without a token."),
)

engine_option = click.option(
    "--engine", type=click.Choice(["spark", "embedded"]), help="What computes the batches.  [default: spark]"
)

log_option = click.option("--log-json", is_flag=True, help="Write logs as lines of JSON.")


def program_options(command: _F) -> _F:
    """Add the argument MODULE:TOPOLOGY, and the options for its name and log."""
    return _added(command, _PROGRAM)


def client_options(command: _F) -> _F:
    """Add the options that say who may ask a server."""
    return _added(command, _CLIENTS)


def _added(command: _F, options: tuple[Callable[[_F], _F], ...]) -> _F:
    for option in reversed(options):
        command = option(command)
    return command


def log_at(url: str | None, prefix: str) -> RedisLog | None:
    """Return the log that --log-url and --log-prefix name."""
    return None if url is None else RedisLog(url, prefix=prefix)


def check_secret(option: str, value: str | None) -> None:
    """Raise UsageError for a secret that other users of the machine could see."""
    if value is not None and not value.startswith(("env:", "file:")):
        raise click.UsageError(f"{option}: other users of the machine see a command line; write env:NAME or file:path")


def log_to_stderr(as_json: bool, audit: bool = False) -> None:
    """Write logs from INFO on to stderr, as lines of text or of JSON. Each process that answers calls this for itself.

    `audit`: also a line for each request.

    Logging that is configured already is not changed.
    """
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("trident.audit").setLevel(logging.INFO if audit else logging.WARNING)
