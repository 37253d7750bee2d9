"""Addresses of PostgreSQL databases: a url, with a user and a password that may be in a variable or a file."""

import re
from collections.abc import Callable
from typing import Any

from trident.base.errors import MissingPackageError
from trident.base.forked_child import in_child, sever
from trident.base.redis_address import redacted, shown_url
from trident.base.secret_references import SOURCES, read_secret

SCHEMES = ("postgresql://", "postgres://", "jdbc:postgresql://")

_PASSING = ("08", "40", "53", "55P03", "57014", "57P", "58")
"""Prefixes of SQLSTATEs of temporary errors: lost connections, conflicts, cancelled statements, a server without
resources or restarting."""

_REFUSALS = re.compile(
    r"authentication failed|no pg_hba\.conf entry|does not exist|no password supplied|not permitted to log in"
    r"|certificate verify failed|permission denied for database"
)
"""Messages of a server that would refuse the next connection as well. Errors while connecting have no SQLSTATE."""


def postgres_client(user: str, extra: str) -> Any:
    """Return the module psycopg. If it is missing, raise MissingPackageError, which says that `user` needs `extra`."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as error:
        raise MissingPackageError(
            f"{user} needs the package psycopg on the driver, and on every worker that connects: "
            f"pip install 'trident-pyspark[{extra}]'"
        ) from error
    return psycopg


def open_connection(client: Any, **parameters: Any) -> Any:
    """Return a connection of psycopg that a forked child cannot disturb."""
    return in_child(client.connect(**parameters), _sever)


def _sever(connection: Any) -> None:
    if not connection.closed:
        sever(connection.pgconn.socket)


def parameters_of(
    owner: str,
    url: str,
    user: str | None,
    password: str | None,
    connect_timeout: float,
    error: Callable[[str], Exception],
) -> dict[str, Any]:
    """Return psycopg's connection parameters. Each text may be ``env:NAME`` or ``file:path``, which is read now.

    Raises ``error(message)`` if the address cannot be read; the message begins with `owner`.
    """

    def read(name: str, text: str) -> str:
        return read_secret(name, text, lambda problem: error(f"{owner}: {problem}"))

    held = read("url", url).removeprefix("jdbc:")
    if not held.startswith(SCHEMES):
        raise error(f"{owner}: {redacted(url)} does not contain a url that begins with postgresql://")
    import psycopg.conninfo  # it is installed: the caller is about to connect with it

    try:
        parameters: dict[str, Any] = psycopg.conninfo.conninfo_to_dict(held)
    except psycopg.ProgrammingError:  # its message may show a part of the password
        raise error(
            f"{owner}: the url {redacted(url)} cannot be understood; expected postgresql://user@host:5432/database, "
            f"with parameters of libpq, and in user and password / as %2F, ? as %3F, # as %23, @ as %40"
        ) from None
    given = {"user": user, "password": password}
    parameters |= {name: read(name, text) for name, text in given.items() if text is not None}
    # With keepalives, a server that vanishes in the middle of an answer is noticed after half a minute. Without them
    # the client would wait for ever.
    defaults: dict[str, Any] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4}
    defaults |= {"connect_timeout": max(2, round(connect_timeout)), "application_name": "trident-pyspark"}
    return {**defaults, **parameters, "client_encoding": "UTF8"}


def check_postgres_url(url: object) -> None:
    """Raise TypeError or ValueError unless `url` is a url of PostgreSQL, or ``env:NAME`` or ``file:path`` for one."""
    if not isinstance(url, str):
        raise TypeError(
            f"url={shown_url(url)}: expected text, postgresql://user@host:5432/database, env:NAME or file:path"
        )
    if not url.startswith((*SCHEMES, *SOURCES)) or url in SOURCES:
        raise ValueError(
            f"url {redacted(url)!r}: expected postgresql://user@host:5432/database, or env:NAME or file:path that "
            f"contains the url"
        )


def passes(error: Any) -> bool:
    """Return whether a request that failed with this error of psycopg may succeed if it is repeated."""
    if error.sqlstate is not None:
        return str(error.sqlstate).startswith(_PASSING)
    import psycopg  # it is installed: it raised the error

    return isinstance(error, psycopg.OperationalError) and not _REFUSALS.search(str(error))


READ_ONLY = (
    "is read-only. For a standby, the url must lead to the primary: name several hosts, with "
    "target_session_attrs=read-write. Else default_transaction_read_only is on for the role, the database or the server"
)
"""The message for a session in which nothing can be written (SQLSTATE 25006)."""


def said(error: Any) -> str:
    """Return the message of a psycopg error as one line."""
    return str(error.diag.message_primary or " ".join(str(error).split()) or type(error).__name__)
