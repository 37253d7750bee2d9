"""Sessions on a Spark Connect server, which closes an unused session after a time: an hour by default.

A topology may have no batch for longer. So a thread asks each of its sessions for a setting, several times in that
time, and the user's session too, because further sessions are made from it.
"""

import copy
import logging
import re
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from time import monotonic
from typing import Any

from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

TIMEOUT = "spark.connect.session.manager.defaultSessionTimeout"
"""The setting of the server with the time after which it closes an unused session."""

_DEFAULT = 3600.0
_LONGEST = 300.0
_ASKED_WITHIN = 4
"""The number of uses of a session within the time after which the server closes an unused one."""

_WARNED_EVERY = 60.0
"""The seconds between two warnings of a server that is away."""

_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def pause_for(timeout: str | None) -> float | None:
    """Return the seconds between two uses of a session, by the server's setting; None if it closes no session.

    >>> [pause_for(timeout) for timeout in (None, "60m", "20s", "8000", "-1")]
    [300.0, 300.0, 5.0, 2.0, None]
    """
    found = re.fullmatch(r"(-?\d+)\s*([a-z]*)", (timeout or "").strip().lower())
    if found is None or (found[2] or "ms") not in _UNITS:
        return min(_LONGEST, _DEFAULT / _ASKED_WITHIN)
    seconds = int(found[1]) * _UNITS[found[2] or "ms"]
    return None if seconds < 0 else min(_LONGEST, seconds / _ASKED_WITHIN)


def use(session: SparkSession) -> str | None:
    """Use a session, with one short call. Return the time after which its server closes an unused session, if set."""
    return session.conf.get(TIMEOUT, None)


class _Keeper:
    """The thread that uses the sessions of runs that were made from one session of the user."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = weakref.ref(spark)
        self._pause = pause_for(use(spark))
        self._sessions: set[SparkSession] = set()
        self._changed = threading.Condition()
        self._runs = False

    def keep(self, session: SparkSession) -> None:
        with self._changed:
            self._sessions.add(session)
            if not self._runs and self._pause is not None:
                self._runs = True
                threading.Thread(target=self._use, args=(self._pause,), name="trident-sessions", daemon=True).start()

    def let_go(self, session: SparkSession) -> None:
        with self._changed:
            self._sessions.discard(session)
            self._changed.notify()

    def _use(self, pause: float) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._sessions, pause)
                if not self._sessions:
                    self._runs = False
                    return
                sessions = {*self._sessions, self._spark()}
            for session in filter(None, sessions):
                with suppress(Exception):  # if the server is gone, the next batch reports it
                    use(session)


# --- a session that is stopped, and a server that is away -------------------------------------------------------------


class _UntilStopped:
    """Decides whether a policy of PySpark's client tries a failed call again, which it does for minutes.

    It does not once the user's session was stopped: a local server ended with it, and the calls of a run would wait.
    Otherwise the policy decides, and a warning says that the server is away.
    """

    def __init__(self, can_retry: Callable[[BaseException], bool], spark: SparkSession) -> None:
        self._can_retry, self._spark = can_retry, weakref.ref(spark)
        self._warned = float("-inf")

    def __call__(self, error: BaseException) -> bool:
        spark = self._spark()
        if (spark is not None and is_closed_here(spark)) or not self._can_retry(error):
            return False
        if monotonic() - self._warned > _WARNED_EVERY:
            self._warned = monotonic()
            logger.warning(
                "the Spark Connect server does not answer, and its client tries again for minutes: %s", error
            )
        return True


def retry_until_stopped(session: SparkSession, spark: SparkSession) -> None:
    """Let the calls of a run's session fail at once if the user's session `spark` was stopped."""
    _users[session] = weakref.ref(spark)
    policies = []
    for given in session.client.get_retry_policies():
        policy: Any = copy.copy(given)
        policy.can_retry = _UntilStopped(given.can_retry, spark)
        policies.append(policy)
    session.client.set_retry_policies(policies)


def is_closed_here(session: SparkSession) -> bool:
    """Return whether the client of a Connect session is closed; for a session of a run, that of the user's session."""
    users = _users.get(session, lambda: None)()
    asked: Any = session if users is None else users
    return bool(asked.is_stopped)


_users: "weakref.WeakKeyDictionary[SparkSession, weakref.ref[SparkSession]]" = weakref.WeakKeyDictionary()
"""The user's session, by the session of a run that was made from it."""


# --- sessions that are kept open --------------------------------------------------------------------------------------


_keepers: "weakref.WeakKeyDictionary[SparkSession, _Keeper]" = weakref.WeakKeyDictionary()
_kept: "weakref.WeakKeyDictionary[SparkSession, _Keeper]" = weakref.WeakKeyDictionary()
_lock = threading.Lock()


def keep_open(session: SparkSession, spark: SparkSession) -> None:
    """Keep a session of a run open until `let_go`, with the user's session `spark` from which it was made."""
    with _lock:
        if spark not in _keepers:
            _keepers[spark] = _Keeper(spark)
        _kept[session] = _keepers[spark]
    _kept[session].keep(session)


def let_go(session: SparkSession) -> None:
    """Let the server close a session that `keep_open` keeps open."""
    keeper = _kept.pop(session, None)
    if keeper is not None:
        keeper.let_go(session)
