"""The command-line options for the locations of states."""

import functools
from collections.abc import Callable
from typing import Any, TypeVar

import click

from trident.cli.program_options import log_at
from trident.cli.secret_types import SecretUrl, StorageOptions
from trident.configuration.value_kinds import pairs_of

_F = TypeVar("_F", bound=Callable[..., Any])

FILES_OPTIONS = (
    click.option(
        "--files-location",
        help="The filesLocation, if the files are on an object store or HDFS: s3://bucket/prefix, "
        "hdfs://namenode:8020/folder.",
    ),
    click.option(
        "--files-storage",
        type=StorageOptions(),
        help="The options of an object store: region=eu-central-1,secret_access_key=env:NAME.",
    ),
)

_OPTIONS = (
    click.option("--checkpoint", envvar="TRIDENT_CHECKPOINT", help="The checkpointLocation. [env: TRIDENT_CHECKPOINT]"),
    click.option(
        "--url",
        type=SecretUrl(),
        envvar="TRIDENT_REDIS_URL",
        help="A server with states: redis://host:6379/0; or env:NAME or file:path to read the URL from there, so that "
        "no password is on the command line. [env: TRIDENT_REDIS_URL]",
    ),
    click.option("--prefix", default="trident", show_default=True, help="The prefix of all keys on the server."),
    click.option(
        "--log-url", type=SecretUrl(), help="The server of the log, if the log is in Redis; same form as --url."
    ),
    click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log."),
    *FILES_OPTIONS,
)


def location_options(command: _F) -> _F:
    """Add the options for the location of states to a command, which passes their values to `read_locations`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def files_options(command: _F) -> _F:
    """Add the options for the location of files to a command, which gets them as keyword arguments in `files`."""

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        files = files_at(given.pop("files_location"), given.pop("files_storage"))
        return command(**given, files=files)

    added: Any = called
    for option in reversed(FILES_OPTIONS):
        added = option(added)
    return added  # type: ignore[no-any-return]


def files_at(location: str | None, storage: str | None) -> dict[str, Any]:
    """Return the options for the location of files as keyword arguments of openState, openTopology and dropState."""
    return {"filesLocation": location, "filesStorage": None if storage is None else pairs_of(storage)}


def read_locations(
    checkpoint: str | None,
    url: str | None,
    prefix: str,
    log_url: str | None,
    log_prefix: str,
    files_location: str | None,
    files_storage: str | None,
) -> dict[str, Any]:
    """Return the options as keyword arguments of openState and dropState.

    Raises UsageError if no option names the location of the states.
    """
    if checkpoint is None and url is None and log_url is None:
        raise click.UsageError("give the location of the states: --checkpoint, --url or --log-url")
    log = log_at(log_url, log_prefix)
    places = {"checkpointLocation": checkpoint, "url": url, "prefix": prefix, "log": log}
    return places | files_at(files_location, files_storage)
