"""The options that `trident run`, `serve` and `submit` share: the topology, its log, a server's clients, logging.

A command gets the options of a family as one object.
"""

import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeVar, get_args

import click

from trident.base.errors import TopologyError
from trident.base.json_logs import JsonFormatter
from trident.cli.secret_types import Secret, SecretUrl, Setting, Text
from trident.configuration.start_options import OUTSIDE, OptionValues
from trident.log import RedisLog
from trident.server.tls import TLS

_F = TypeVar("_F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ProgramArguments:
    """The topology that a command line names, and the location of its log."""

    program: str
    name: str
    checkpoint: str | None
    log_url: str | None
    log_prefix: str

    @property
    def log(self) -> RedisLog | None:
        """The log that --log-url and --log-prefix name."""
        return log_at(self.log_url, self.log_prefix)


@dataclass(frozen=True, slots=True)
class SparkArguments:
    """The profile, and the driver's Spark."""

    profile: str | None
    master: str | None
    confs: tuple[str, ...]

    @property
    def settings(self) -> dict[str, str]:
        """The settings of --spark-conf."""
        return pairs("--spark-conf", self.confs)


@dataclass(frozen=True, slots=True)
class ClientArguments:
    """The access of clients to a server."""

    host: str
    token: str | None
    allowed_host: tuple[str, ...]
    insecure: bool


@dataclass(frozen=True, slots=True)
class TlsArguments:
    """The files of TLS."""

    tls_cert: str | None
    tls_key: str | None
    tls_client_ca: str | None

    @property
    def tls(self) -> TLS | None:
        """The TLS files; None if the command line names none. Raises UsageError if some of them are missing."""
        if self.tls_cert is None and self.tls_key is None:
            if self.tls_client_ca is None:
                return None
        elif self.tls_cert is not None and self.tls_key is not None:
            return TLS(self.tls_cert, self.tls_key, self.tls_client_ca)
        raise click.UsageError("TLS needs both --tls-cert and --tls-key")


def checked_program(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Return the text MODULE:TOPOLOGY. Raises BadParameter for another text."""
    if not value:
        return value
    module, _, attribute = value.partition(":")
    if not module or not attribute:
        raise click.BadParameter(f"{value!r}: expected module:topology, such as counts:topology")
    return value


program_argument = click.argument("program", metavar="MODULE:TOPOLOGY", callback=checked_program)

LOG_PLACE = (
    click.option("--checkpoint", envvar="TRIDENT_CHECKPOINT", help="Its checkpointLocation. [env: TRIDENT_CHECKPOINT]"),
    click.option(
        "--log-url",
        type=SecretUrl(),
        help="The server of its log, if the log is in Redis: redis://host, env:NAME or file:path.",
    ),
    click.option("--log-prefix", default="trident", show_default=True, help="The prefix of that log."),
)

LOCATION = (
    click.option("--name", default="topology", show_default=True, help="The topology's name."),
    *LOG_PLACE,
)

_PROGRAM = (program_argument, *LOCATION)

_MAYBE_PROGRAM = (
    click.argument("program", metavar="[MODULE:TOPOLOGY]", default="", callback=checked_program),
    *LOCATION,
)

_TLS = (
    click.option("--tls-cert", help="The server's certificate, a PEM file: the server answers by HTTPS."),
    click.option("--tls-key", help="The key of --tls-cert, a PEM file without a password."),
    click.option(
        "--tls-client-ca",
        help="The authority that signs clients' certificates, a PEM file; clients must then present one.",
    ),
)

_CLIENTS = (
    click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen at."),
    click.option(
        "--token", type=Secret(), help="The token that clients must send: env:NAME or file:path that contains it."
    ),
    click.option("--allowed-host", multiple=True, help="Another name under which clients may address the server."),
    click.option("--insecure", is_flag=True, help="Let other machines send requests without a token."),
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

set_option = click.option(
    "--set", "settings", type=Setting(), multiple=True, help="An option of the start: maxAttempts=3. May be repeated."
)
"""Any option of a start, as text."""

log_option = click.option("--log-json", is_flag=True, help="Write logs as lines of JSON.")


class _Value(Text):
    """The value of an option of a start, written as in the environment."""

    def __init__(self, option: str) -> None:
        self.name, self._option = "value", option

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the value that a call of `start` would give. Fails with the message of the option's check."""
        option = OUTSIDE[self._option]
        try:
            return option.kind.read(self._option, option.of_text(value))
        except TopologyError as error:
            self.fail(str(error), param, ctx)


def start_options(*names: str, **flags: str) -> Callable[[_F], _F]:
    """Return the decorator that adds options of a start to a command.

    The command gets the options that were given as `options`.

    Type, default and help are as declared. `flags` are options that a flag switches away from their default.
    """

    def decorate(command: _F) -> _F:
        @functools.wraps(command)
        def called(**given: Any) -> Any:
            values = {name: given.pop(name) for name in (*names, *flags)}
            return command(**given, options={name: value for name, value in values.items() if value is not None})

        added: Any = called
        for name in reversed((*names, *flags)):
            added = _start_option(name, flags.get(name))(added)
        return added  # type: ignore[no-any-return]

    return decorate


def _start_option(name: str, flag: str | None) -> Callable[[_F], _F]:
    declared = OUTSIDE[name]
    help = declared.help.replace("`", "").removeprefix("False: ")
    help = f"{help[0].upper()}{help[1:]}."
    if flag is not None:
        return click.option(flag, name, is_flag=True, flag_value=not declared.default, default=None, help=help)
    words = [choice for choice in get_args(OptionValues.__annotations__[name]) if isinstance(choice, str)]
    kind = click.Choice(words) if words else _Value(name)
    dashed = "".join(f"-{sign.lower()}" if sign.isupper() else sign for sign in name)
    return click.option(f"--{dashed}", name, type=kind, help=f"{help}  [default: {declared.default}]")


def program_options(command: _F) -> _F:
    """Add the argument MODULE:TOPOLOGY, and the options for its name and log, as the parameter `topology`."""
    return bundled(command, _PROGRAM, ProgramArguments, "topology")


def maybe_program_options(command: _F) -> _F:
    """Add the options of `program_options`; the program may be omitted, and is then ""."""
    return bundled(command, _MAYBE_PROGRAM, ProgramArguments, "topology")


def spark_options(command: _F) -> _F:
    """Add the options for the profile of trident.toml, and for the driver's Spark, as the parameter `spark`."""
    return bundled(command, _SPARK, SparkArguments, "spark")


def client_options(command: _F) -> _F:
    """Add the options for access to a server, as the parameter `clients`."""
    return bundled(command, _CLIENTS, ClientArguments, "clients")


def tls_options(command: _F) -> _F:
    """Add the options for a server's certificate, as the parameter `files_of_tls`."""
    return bundled(command, _TLS, TlsArguments, "files_of_tls")


def bundled(command: _F, options: tuple[Callable[[_F], _F], ...], bundle: type[Any], parameter: str) -> _F:
    """Add options to a command, which gets them as one object of a dataclass that has a field for each."""
    names = [field.name for field in fields(bundle)]

    @functools.wraps(command)
    def called(**given: Any) -> Any:
        own = bundle(**{name: given.pop(name) for name in names})
        return command(**given, **{parameter: own})

    added: Any = called
    for option in reversed(options):
        added = option(added)
    return added  # type: ignore[no-any-return]


def log_place_options(command: _F) -> _F:
    """Add the options for the location of a log to a command, which gets them one by one."""
    for option in reversed(LOG_PLACE):
        command = option(command)
    return command


def log_at(url: str | None, prefix: str) -> RedisLog | None:
    """Return the log that --log-url and --log-prefix name."""
    if url is None and came("log_prefix"):
        raise click.UsageError("--log-prefix is for a log in Redis: give --log-url, too")
    return None if url is None else RedisLog(url, prefix=prefix)


def came(*parameters: str) -> bool:
    """Return whether one of the command's parameters is on the command line."""
    ctx = click.get_current_context(silent=True)
    return ctx is not None and any(
        ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE for name in parameters
    )


def pairs(option: str, given: Iterable[str]) -> dict[str, str]:
    """Return the pairs of a repeatable option.

    Raises UsageError if a name occurs twice, because one value would be lost.
    """
    found: dict[str, str] = {}
    for name, sign, value in (text.partition("=") for text in given):
        if not sign or not name:
            raise click.UsageError(f"{option} {name}: expected name=value")
        if name in found:
            raise click.UsageError(f"{option} {name} is given twice, as {found[name]!r} and {value!r}: give it once")
        found[name] = value
    return found


def once(settings: Mapping[str, str], **own: Any) -> None:
    """Raise UsageError if --set also sets the value of a dedicated option: one of the two would be ignored.

    `own`: the value of each option of a start that has a dedicated option; None if it is not on the command line.
    """
    for option, value in own.items():
        if option in settings and value is not None:
            raise click.UsageError(f"{option} is set twice, by --set {option} and by its own option: give one")


def log_to_stderr(as_json: bool, audit: bool = False) -> None:
    """Write logs from INFO on to stderr, as lines of text or of JSON. Each server process calls this function.

    With `audit`, also write a line for each request.

    Logging that is configured already is not changed.
    """
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handler.setFormatter(JsonFormatter() if as_json else text)
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("trident.audit").setLevel(logging.INFO if audit else logging.WARNING)
