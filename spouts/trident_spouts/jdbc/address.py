"""Addresses of databases: a url, with a user and a password that may be in an environment variable or a file."""

from dataclasses import dataclass
from typing import Any

from trident.base.errors import SourceUnreadableError
from trident.base.postgres_address import SCHEMES, open_connection, parameters_of
from trident.base.postgres_address import postgres_client as client_for
from trident.base.redis_address import redacted


@dataclass(frozen=True, slots=True, repr=False)
class Address:
    """The address of a database. Each text may be ``env:NAME`` or ``file:path``, which is read at each connection.

    `connect_timeout`: the seconds after which a server counts as unreachable. `owner`: the spout that messages name.
    """

    url: str
    user: str | None
    password: str | None
    connect_timeout: float
    owner: str = "JdbcSpout"

    def connect(self) -> Any:
        """Return a new connection of psycopg, in autocommit mode.

        Raises psycopg.OperationalError if it cannot connect, and SourceUnreadableError if the address cannot be read.

        >>> Address("env:NOT_SET_ANYWHERE", None, None, 5).connect()
        Traceback (most recent call last):
        trident_client.errors.SourceUnreadableError: JdbcSpout: url='env:NOT_SET_ANYWHERE': the environment variable \
NOT_SET_ANYWHERE is not set
        """
        given = (self.url, self.user, self.password, self.connect_timeout)
        client = client_for(self.owner, "jdbc")
        return open_connection(client, **parameters_of(self.owner, *given, SourceUnreadableError), autocommit=True)

    @property
    def shown(self) -> str:
        """The address as messages show it, without secrets."""
        return redacted(self.url)

    def __repr__(self) -> str:
        return f"Address({self.shown!r})"


def postgres_client() -> Any:
    """Return the module psycopg. Raises MissingPackageError if it is not installed."""
    return client_for("JdbcSpout", "jdbc")


__all__ = ["SCHEMES", "Address", "postgres_client"]
