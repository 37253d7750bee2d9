"""Servers of Redis that forget all scripts just before each call of one."""

import pytest

from trident_state.redis.connection import Connection


def forget_scripts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Flush the scripts of a server before each request that calls one by its hash. Return a list that counts them."""
    real, flushes = Connection.flush, list[int]()

    def flush(self: Connection) -> None:
        if any(b"EVALSHA" in packed for packed in self._waiting):
            other = self.server.connection()
            other.connect()
            other.send_command("SCRIPT", "FLUSH")
            other.read_response()
            other.disconnect()
            flushes.append(1)
        real(self)

    monkeypatch.setattr(Connection, "flush", flush)
    return flushes
