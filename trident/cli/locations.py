"""The options of the command line that say where states are."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from trident.log import RedisLog

_F = TypeVar("_F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--checkpoint", envvar="TRIDENT_CHECKPOINT", help="The checkpointLocation. [env: TRIDENT_CHECKPOINT]"),
    click.option(
        "--url",
        envvar="TRIDENT_REDIS_URL",
        help="A server with states: redis://host:6379/0; or env:NAME or file:path to read the URL from there, so that "
        "no password is on the command line. [env: TRIDENT_REDIS_URL]",
    ),
    click.option("--prefix", default="trident", show_default=True, help="The prefix of all keys on the server."),
    click.option("--log-url", help="The server of the log, if that is in Redis; like --url."),
    click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log."),
)


def location_options(command: _F) -> _F:
    """Add the options for the location of states to a command, which passes their values to `read_locations`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_locations(
    checkpoint: str | None, url: str | None, prefix: str, log_url: str | None, log_prefix: str
) -> dict[str, Any]:
    """Return the options as keyword arguments of openState, listStates and dropState.

    Raises UsageError if no option says where the states are.
    """
    if checkpoint is None and url is None and log_url is None:
        raise click.UsageError("give the location of the states: --checkpoint, --url or --log-url")
    log = None if log_url is None else RedisLog(log_url, prefix=log_prefix)
    return {"checkpointLocation": checkpoint, "url": url, "prefix": prefix, "log": log}
