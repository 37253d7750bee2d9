"""Sessions on a Spark Connect server stay open while a topology has nothing to do; a closed one is a clear error."""

import re
import threading
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql.connect.session import SparkSession as ConnectSession

from trident.base.callsite import site_of
from trident.compiler.columns.function_errors import Where
from trident.compiler.spark.connect_sessions import TIMEOUT, keep_open, let_go, retry_until_stopped
from trident.compiler.spark.engine import SparkEngine
from trident.compiler.spark.errors import translated
from trident.compiler.spark.sessions import is_stopped
from trident.compiler.stage_layout import check_pickles
from trident.errors import SparkSetupError, UserCodeError

CLOSED = "[INVALID_HANDLE.SESSION_CLOSED] The handle 5c6 is invalid. Session was closed. SQLSTATE: 08003"
RESTARTED = (
    "Received incorrect server side session identifier for request. Please create a new Spark Session ... (a != b)"
)
AFTER_THAT = (
    "[NO_ACTIVE_SESSION] No active Spark session found. Please create a new Spark session before running the code."
)


class Session:
    """A Connect session, as far as it is kept open."""

    def __init__(self, timeout: str, closed: str = "") -> None:
        self.conf = SimpleNamespace(get=self._get)
        self.timeout, self.closed, self.uses, self.users = timeout, closed, 0, set[str]()
        self.is_stopped = False

    def _get(self, key: str, default: Any) -> str:
        assert key == TIMEOUT
        self.uses += 1
        self.users.add(threading.current_thread().name)
        if self.closed:
            raise PySparkException(self.closed)
        return self.timeout


Session.__module__ = "pyspark.sql.connect.session"


def threads() -> int:
    return sum(thread.name == "trident-sessions" for thread in threading.enumerate())


def until(what: Any) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_idle_sessions_and_the_users_session_are_used_until_they_are_released() -> None:
    users: Any = Session("80ms")
    runs: list[Any] = [Session("80ms"), Session("80ms")]
    for session in runs:
        keep_open(session, users)
    until(lambda: all(session.uses >= 3 for session in (users, *runs)))
    assert {name for session in runs for name in session.users} == {"trident-sessions"} and threads() == 1
    let_go(runs[0])
    until(lambda: runs[1].uses >= 8)
    assert runs[0].uses < 8
    let_go(runs[1])
    until(lambda: threads() == 0)
    keep_open(runs[0], users)  # a later run from the same session
    until(lambda: runs[0].uses >= 8)
    let_go(runs[0])
    until(lambda: threads() == 0)


def test_a_session_that_is_gone_does_not_end_the_use_of_others() -> None:
    users: Any = Session("80ms")
    gone: Any = Session("80ms", CLOSED)
    other: Any = Session("80ms")
    for session in (gone, other):
        keep_open(session, users)
    until(lambda: other.uses >= 3 and gone.uses >= 3)
    for session in (gone, other):
        let_go(session)
    until(lambda: threads() == 0)


def test_a_server_that_closes_no_session_is_not_asked() -> None:
    users: Any = Session("-1")
    session: Any = Session("-1")
    keep_open(session, users)
    assert threads() == 0 and (users.uses, session.uses) == (1, 0)
    let_go(session)


@pytest.mark.parametrize("text", [CLOSED, RESTARTED, AFTER_THAT])
def test_a_session_that_its_server_no_longer_has_is_refused_with_a_way_out(text: str) -> None:
    closed: Any = Session("60m", text)
    said = r"has closed the session: .*defaultSessionTimeout .*Make a new session, .*: it continues where it stopped"
    with pytest.raises(SparkSetupError, match=said):
        SparkEngine(closed)


class Policy:
    """A policy of PySpark's client that tries again after each error."""

    def can_retry(self, error: BaseException) -> bool:
        return True


def client_of(*policies: Any) -> Any:
    """The part of a Connect client that has policies."""
    kept = [*policies]
    return SimpleNamespace(get_retry_policies=lambda: [*kept], set_retry_policies=lambda new: kept.__init__(new))


def test_the_calls_of_a_run_are_tried_again_until_the_users_session_is_stopped(
    caplog: pytest.LogCaptureFixture,
) -> None:
    users, session, given = cast("Any", Session("60m")), cast("Any", Session("60m")), Policy()
    session.client = client_of(given)
    retry_until_stopped(session, users)
    (policy,) = session.client.get_retry_policies()
    for _ in range(3):
        assert policy.can_retry(ConnectionError("no route"))
    assert caplog.messages == [
        "the Spark Connect server does not answer, and its client tries again for minutes: no route"
    ]
    assert not is_stopped(session)
    users.is_stopped = True
    assert is_stopped(session) and not policy.can_retry(ConnectionError("no route"))
    assert given.can_retry(ConnectionError("no route")), "the policy of other sessions stays"


def test_an_error_of_a_session_that_was_stopped_says_so() -> None:
    users, session = cast("Any", Session("60m")), cast("Any", Session("60m"))
    session.client = client_of()
    retry_until_stopped(session, users)
    users.is_stopped = True
    said = r"the Spark session was stopped \(spark.stop\(\)\) while the topology was running"
    assert re.match(said, str(translated(OSError("unavailable"), session=session)))
    assert re.match(said, str(translated(PySparkException(AFTER_THAT), session=session)))
    assert "has closed the session" in str(translated(PySparkException(RESTARTED), session=session))
    with pytest.raises(SparkSetupError, match=said):
        SparkEngine.slot(cast("Any", SimpleNamespace(_spark=users)), cast("Any", None))


def test_a_session_of_connect_cannot_be_sent_to_workers() -> None:
    session = ConnectSession.__new__(ConnectSession)
    where = Where("words/1:each", site_of(until))
    with pytest.raises(UserCodeError, match=r"cannot be sent to Spark's workers: .* \(a function runs without a Spark"):
        check_pickles(where, lambda word: session.range(word))
    check_pickles(where, lambda word: word)
