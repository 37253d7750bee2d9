"""A PostgreSQL that tests of `SourceContract` restore from a copy, replace by another server, and stop."""

import uuid
from typing import Any

import pytest

from tests.support.postgres import PostgresServer
from trident.testing import ChangingSource

URL = "TRIDENT_TEST_CHANGING_URL"
"""The environment variable with the url of the present server, which spouts read by ``env:``."""


class ChangingPostgres(ChangingSource):
    """A table with a field `word`, on a server that may be replaced by another one with a table of the name."""

    def __init__(self, servers: list[PostgresServer], patch: pytest.MonkeyPatch) -> None:
        self.servers, self._patch = [*servers], patch
        self.table, self._words = f"t_{uuid.uuid4().hex[:8]}", 0
        self._removed = False
        self._begin()

    @property
    def server(self) -> PostgresServer:
        """The present server."""
        return self.servers[0]

    def create(self) -> None:
        """Create the table on the present server."""
        raise NotImplementedError

    def emitted(self, word: str) -> tuple[Any, ...]:
        """Return the tuple that the spout emits for a row."""
        return (word,)

    def _begin(self) -> None:
        self._patch.setenv(URL, self.server.url)
        self.create()

    def add(self, count: int) -> list[tuple[Any, ...]]:
        if self._removed:
            self.create()
            self._removed = False
        words = [f"word {self._words + number}" for number in range(count)]
        self._words += count
        self.server.run(*(f"insert into {self.table} (word) values ('{word}')" for word in words))
        return [self.emitted(word) for word in words]

    def copy(self) -> None:
        self.server.copy()

    def restore(self) -> None:
        self.server.restore()

    def replace(self) -> None:
        self.server.kill()
        self.servers.reverse()
        self._begin()

    def remove(self) -> None:
        self.server.run(f"drop table {self.table}")
        self._removed = True

    def hide(self) -> None:
        self.server.kill()

    def show(self) -> None:
        self.server.start()

    def close(self) -> None:
        """Start the servers that a test has stopped."""
        for server in self.servers:
            if not server.running:
                server.start()
