"""The option that puts a topology's transaction log into Redis: ``from trident.log import RedisLog``."""

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from trident.base.durations import Duration, read_seconds
from trident.base.finding import Finding, Now
from trident.base.redis_address import Address, check_url, redacted

if TYPE_CHECKING:
    from trident.log.protocol import LogReading
    from trident.log.redis_log import RedisTransactionLog


@dataclass(frozen=True, repr=False)
class RedisLog:
    """The transaction log in Redis or Valkey, for a driver that may move to another machine.

    Give it to ``start(..., log=RedisLog(...))``. A ``checkpointLocation`` is then needed only for states in memory and
    for large results, which are frozen as files; all machines must reach that location. A ``filesLocation`` on an
    object store may replace it.

    Parameters
    ----------
    url : str
        As for `RedisMapState`: ``redis://``, ``rediss://``, ``unix://``, or ``env:NAME`` or ``file:path``.
    prefix : str
        The beginning of all Redis keys: ``prefix:{topology}:log:...``.
    requireDurable : bool
        Refuse a server that may lose confirmed writes: a server without ``appendonly yes``, ``appendfsync always`` and
        ``no-appendfsync-on-rewrite no``, or a master of a cluster that has a replica. If a log loses its last writes,
        the next start notices (the states are ahead of the log), but only a copy of the log helps then.
    retrySecs : duration
        How long to wait for a server that does not answer: seconds, ``"1 minute"`` or a timedelta. Then the batch group
        stops; a later start continues it.
    connectTimeout, socketTimeout : duration
        How long until the server counts as unreachable.

    >>> RedisLog("redis://:secret@localhost:6379/0", requireDurable=False)
    RedisLog('redis://:***@localhost:6379/0', requireDurable=False)
    """

    url: str
    prefix: str = "trident"
    requireDurable: bool = True
    retrySecs: Duration = 30.0
    connectTimeout: Duration = 5.0
    socketTimeout: Duration = 10.0

    def __post_init__(self) -> None:
        check_url(self.url)
        if not re.fullmatch(r"[A-Za-z0-9_.:-]+", self.prefix):
            raise ValueError(f"prefix={self.prefix!r}: expected letters, digits, '-', '_', '.' and ':'")
        for name in ("retrySecs", "connectTimeout", "socketTimeout"):
            object.__setattr__(self, name, self._seconds(name))

    def open(self, topology: str) -> "RedisTransactionLog":
        """Open a topology's log on this server; create it if it is missing.

        Raises LogError if the server does not answer or cannot keep a log.
        """
        from trident.log.redis_log import RedisTransactionLog

        return RedisTransactionLog(
            self._address(), self.prefix, topology, self.requireDurable, self._seconds("retrySecs")
        )

    def look(self, topology: str) -> "LogReading":
        """Open a topology's log on this server read-only. Raises LogError if the server has none."""
        from trident.log.redis_log import RedisTransactionLog

        return RedisTransactionLog(self._address(), self.prefix, topology, False, 0.0, reading=True)

    def open_to_drop(self, topology: str) -> "RedisTransactionLog | None":
        """Open a topology's log, of any version, in order to take and drop it; return None if there is no log."""
        from trident.log.protocol import LogAbsentError
        from trident.log.redis_log import RedisTransactionLog

        try:
            return RedisTransactionLog(
                self._address(), self.prefix, topology, False, self._seconds("retrySecs"), dropping=True
            )
        except LogAbsentError:
            return None

    def examine(self, now: Now = time.time) -> Iterator[Finding]:
        """Yield the faults of the servers that `trident doctor` reports: those of a state, and lossy settings.

        Parameters
        ----------
        now : callable
            The clock of this machine, in seconds since 1970.
        """
        from trident.log.log_server import examine_log_servers

        yield from examine_log_servers(self._address(), self.prefix, self.requireDurable, now)

    def _address(self) -> Address:
        return Address(self.url, self._seconds("connectTimeout"), self._seconds("socketTimeout"))

    def _seconds(self, name: str) -> float:
        return read_seconds(name, getattr(self, name), zero=name == "retrySecs")

    def __repr__(self) -> str:
        shown = [repr(redacted(self.url))]
        for field in fields(self)[1:]:
            if (value := getattr(self, field.name)) != field.default:
                shown.append(f"{field.name}={value!r}")
        return f"RedisLog({', '.join(shown)})"
