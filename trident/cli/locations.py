"""The options that say where states are."""

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
        help="A server with states: redis://host:6379/0, or env:NAME or file:path where that stands, so that no "
        "password is on the command line. [env: TRIDENT_REDIS_URL]",
    ),
    click.option("--prefix", default="trident", show_default=True, help="What all keys on the server begin with."),
    click.option("--log-url", help="The server of the log, where that is in Redis; like --url."),
    click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log."),
)


def place_options(command: _F) -> _F:
    """Give a command the options, which `read_places` makes keyword arguments of."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def read_places(
    checkpoint: str | None, url: str | None, prefix: str, log_url: str | None, log_prefix: str
) -> dict[str, Any]:
    """The keyword arguments of openState, listStates and dropState."""
    if checkpoint is None and url is None and log_url is None:
        raise click.UsageError("say where the states are: --checkpoint, --url or --log-url")
    log = None if log_url is None else RedisLog(log_url, prefix=log_prefix)
    return {"checkpointLocation": checkpoint, "url": url, "prefix": prefix, "log": log}
