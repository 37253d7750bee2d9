"""Addresses of databases: a url, with a user and a password that may lie in an environment variable or a file."""

from dataclasses import dataclass
from typing import Any

from trident.base.errors import MissingPackageError, SourceUnreadableError
from trident.base.redis_address import redacted
from trident.base.secrets import read_secret

SCHEMES = ("postgresql://", "postgres://", "jdbc:postgresql://")


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """The address of a database. Each text may be ``env:NAME`` or ``file:path`` that holds it, read at each connection.

    `connect_timeout`: the seconds after which a server counts as unreachable.
    """

    url: str
    user: str | None
    password: str | None
    connect_timeout: float

    def connect(self) -> Any:
        """Return a new connection of psycopg, in autocommit mode.

        Raises psycopg.OperationalError if there is none, and SourceUnreadableError if the address cannot be read.
        """
        return postgres_client().connect(**self._parameters(), autocommit=True)

    def _parameters(self) -> dict[str, Any]:
        url = read_text("url", self.url).removeprefix("jdbc:")
        if not url.startswith(SCHEMES):
            raise SourceUnreadableError(f"JdbcSpout: {self.url} does not hold a url that begins with postgresql://")
        client = postgres_client()
        try:
            parameters: dict[str, Any] = client.conninfo.conninfo_to_dict(url)
        except client.ProgrammingError:  # its message may show a part of the password
            raise SourceUnreadableError(
                f"JdbcSpout: the url {self.shown} cannot be understood; expected postgresql://user@host:5432/database, "
                f"with parameters of libpq, and in user and password / as %2F, ? as %3F, # as %23, @ as %40"
            ) from None
        given = {"user": self.user, "password": self.password}
        parameters |= {name: read_text(name, text) for name, text in given.items() if text is not None}
        # A server that vanishes in the middle of an answer is noticed after half a minute, and not never.
        defaults: dict[str, Any] = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 4}
        defaults |= {"connect_timeout": max(2, round(self.connect_timeout)), "application_name": "trident-pyspark"}
        return {**defaults, **parameters, "client_encoding": "UTF8"}

    @property
    def shown(self) -> str:
        """The address as messages show it, without secrets."""
        return redacted(self.url)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def read_text(name: str, text: str) -> str:
    """Return what ``env:NAME`` or ``file:path`` holds, or `text` itself if it is neither.

    Raises SourceUnreadableError if there is no such variable or file. The message never shows the content.

    >>> read_text("password", "env:NOT_SET_ANYWHERE")
    Traceback (most recent call last):
    trident.base.errors.SourceUnreadableError: JdbcSpout: password='env:NOT_SET_ANYWHERE': the environment variable \
NOT_SET_ANYWHERE is not set
    """
    return read_secret(name, text, lambda problem: SourceUnreadableError(f"JdbcSpout: {problem}"))


def postgres_client() -> Any:
    """Return the module psycopg. Raises MissingPackageError if it is not installed."""
    try:
        import psycopg
        import psycopg.conninfo
    except ImportError as error:
        raise MissingPackageError(
            "JdbcSpout needs the package psycopg on the driver and on every worker: pip install 'trident-pyspark[jdbc]'"
        ) from error
    return psycopg
