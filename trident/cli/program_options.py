"""The options that `trident run`, `serve` and `submit` share: the topology, its log, a server's clients, logging."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from trident.base.json_logs import JsonFormatter
from trident.cli.secret_types import Secret, SecretUrl, Setting
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
    click.option(
        "--log-url",
        type=SecretUrl(),
        help="The server of its log, if that is in Redis: redis://host, env:NAME or file:path.",
    ),
    click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log."),
)

_CLIENTS = (
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at."),
    click.option("--token", type=Secret(), help="What clients must send: env:NAME or file:path that holds it."),
    click.option("--allowed-host", multiple=True, help="Another name under which clients may address the server."),
    click.option("--insecure", is_flag=True, help="Let other machines ask without a token."),
)

engine_option = click.option(
    "--engine", type=click.Choice(["spark", "embedded"]), help="What computes the batches.  [default: spark]"
)

_SPARK = (
    click.option("--profile", envvar="TRIDENT_PROFILE", help="The profile of trident.toml. [env: TRIDENT_PROFILE]"),
    click.option("--master", help="The master of the driver's Spark: local[4], spark://host:7077, yarn, k8s://..."),
    click.option(
        "--spark-conf",
        "confs",
        type=Setting(),
        multiple=True,
        help="A setting of its Spark: spark.executor.instances=4. The value of a secret is env:NAME or file:path.",
    ),
)

log_option = click.option("--log-json", is_flag=True, help="Write logs as lines of JSON.")


def program_options(command: _F) -> _F:
    """Add the argument MODULE:TOPOLOGY, and the options for its name and log."""
    return _added(command, _PROGRAM)


def spark_options(command: _F) -> _F:
    """Add the options for the profile of trident.toml, and for the driver's Spark."""
    return _added(command, _SPARK)


def client_options(command: _F) -> _F:
    """Add the options for access to a server."""
    return _added(command, _CLIENTS)


def _added(command: _F, options: tuple[Callable[[_F], _F], ...]) -> _F:
    for option in reversed(options):
        command = option(command)
    return command


def log_at(url: str | None, prefix: str) -> RedisLog | None:
    """Return the log that --log-url and --log-prefix name."""
    if url is None and came("log_prefix"):
        raise click.UsageError("--log-prefix is for a log in Redis: give --log-url, too")
    return None if url is None else RedisLog(url, prefix=prefix)


def came(*parameters: str) -> bool:
    """Return whether one of the present command's parameters is on the command line."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and any(
        ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in parameters
    )


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Return the pairs of an option that may be repeated. Raises UsageError if one of two values would be dropped."""
    found: dict[str, str] = {}
    for name, sign, value in (text.partition("=") for text in given):
        if not sign or not name:
            raise click.UsageError(f"{option} {name}: expected name=value")
        if name in found:
            raise click.UsageError(f"{option} {name} came twice, as {found[name]!r} and {value!r}: give it once")
        found[name] = value
    return found


def once(settings: Mapping[str, str], **own: Any) -> None:
    """Raise UsageError if --set sets the value of a dedicated option, too: one of the two would be dropped.

    `own`: the value of each option of a start that has a dedicated option; None if it did not come.
    """
    for option, value in own.items():
        if option in settings and value is not None:
            raise click.UsageError(f"{option} is set twice, by --set {option} and by an option of its own: give one")


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
