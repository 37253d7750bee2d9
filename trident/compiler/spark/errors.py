"""Translation of Spark's exceptions about user code or setup into errors of the library, without Java's noise."""

import re
import sys
import traceback
from collections.abc import Sequence

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PySparkException,
)
from pyspark.sql import SparkSession

from trident.base.errors import (
    SourceUnreadableError,
    SparkFailedError,
    SparkSetupError,
    SpoutContractError,
    TridentError,
)
from trident.compiler.columns.function_errors import decoded
from trident.compiler.spark.expression_errors import expression_error, sum_error
from trident.compiler.spark.sessions import is_connect, is_stopped
from trident.plan.nodes import Node

_VALUES = (ArithmeticException, ArrayIndexOutOfBoundsException, DateTimeException, NumberFormatException)
_IN_TEXT = re.compile(
    r"\[((?:ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO|CAST_INVALID_INPUT|CAST_OVERFLOW|INVALID_ARRAY_INDEX|USER_RAISED_EXCEPTION|"
    r"NUMERIC_VALUE_OUT_OF_RANGE)[^\]]*)\] ([^\n]*)"
)
_VOID_ADVICE = re.compile(
    r' If necessary set "?spark\.sql\.ansi\.enabled"? to "?false"? to bypass this error\.| SQLSTATE: \w+'
)
"""Parts of Spark's messages that are left out: the advice to switch off ANSI mode, which every run needs
(`pinned_confs`), and the SQLSTATE."""
_UNREADABLE = re.compile(r"\[(FAILED_READ_FILE[^\]]*|PATH_NOT_FOUND)\] ([^\n]*)")
_OTHER_TYPE = "PARQUET_COLUMN_DATA_TYPE_MISMATCH"
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_OTHER_PYTHON = re.compile(r"\[PYTHON_VERSION_MISMATCH\] ([^\n]*)")
_OURS = ("trident", "trident_client", "trident_state", "trident_spouts", "msgspec", "pandas", "pyarrow")
_SAME_PYTHON = (
    "set PYSPARK_PYTHON to a Python of the same version that has the library, before the session is made; "
    f"for a local session that is {sys.executable}"
)
_LOST = "Checkpoint block"
_OTHER_OUTPUT = "A shuffle map stage with indeterminate output was failed and retried"
_DIED = "Python worker exited unexpectedly"
_STOPPED = ("Cannot call methods on a stopped SparkContext", "SparkContext was shut down", "SparkContext was stopped")
_GONE = ("Error while sending or receiving", "Answer from Java side is empty", "does not exist in the JVM")
_CLOSED = ("[INVALID_HANDLE.SESSION_", "incorrect server side session identifier", "[NO_ACTIVE_SESSION]")
"""Messages about a session that a Connect server has closed. PySpark's client itself closes a session at the second."""
STOPPED = (
    "the Spark session was stopped (spark.stop()) while the topology was running. Stop the topology first. To continue "
    "with this batch, start the topology again with a running session and the same checkpointLocation or log"
)
_STOPPED_CLIENT = f"{STOPPED}. (A client of Spark Connect also stops a session by itself after a restart of the server)"
_JAVA_GONE = (
    "the Java process of Spark ended while the topology was running: it ran out of memory, or was killed from "
    "outside; restart the program, and the topology continues where it stopped"
)


def translated(error: BaseException, nodes: Sequence[Node] = (), session: SparkSession | None = None) -> BaseException:
    """Return the library's error for an exception of Spark; the exception itself if the library has no better error.

    `nodes` are those that Spark ran; the error of an expression names its node's step. `session` ran them: if it was
    stopped, every exception is a consequence, because PySpark then finds None in place of its context.
    """
    if isinstance(error, TridentError):
        return error
    text = _text(error)
    ours = decoded(text)
    if ours is not None:
        return ours
    closed = any(sign in text for sign in _CLOSED[:-1])  # at the last sign the session may have been stopped here
    if session is not None and not closed and is_stopped(session):
        return stopped_error(session)
    unreadable = _UNREADABLE.search(text)
    if unreadable is not None:
        said = f"Spark cannot read the source: {unreadable[2].strip()} [{unreadable[1]}]"
        if _OTHER_TYPE in unreadable[1]:  # the file will have the same type at every attempt
            return SpoutContractError(f"{said}; give the types of the file as schema=, and cast after the source")
        return SourceUnreadableError(said)
    value = _IN_TEXT.search(text)
    if value is not None:
        said = f"{_VOID_ADVICE.sub('', value[2]).strip()} [{value[1]}]"
        return sum_error(text, nodes, error) or expression_error(said, text[value.end() :], nodes, error)
    why = _java_gone(error, text) or _setup_error(text)
    if why is not None:
        return why
    if isinstance(error, (*_VALUES, AnalysisException, ParseException)):
        said, _, context = text.partition("\n")
        return expression_error(said, f"\n{context}", nodes, error)
    return error


def stopped_error(session: SparkSession) -> SparkSetupError:
    """Return the error for a session that was stopped."""
    return SparkSetupError(_STOPPED_CLIENT if is_connect(session) else STOPPED)


def _setup_error(text: str) -> SparkFailedError | None:
    """Return the error for a text that shows broken workers or a broken session; None for other texts."""
    missing = _MISSING.search(text)
    if missing is not None:
        lacks = f"Spark's Python workers have no module {missing[1]!r}"
        if missing[1].partition(".")[0] in _OURS:
            return SparkSetupError(f"{lacks}: they run another Python; {_SAME_PYTHON}")
        return SparkSetupError(f"{lacks}; install it there, or send it with addPyFile")
    other = _OTHER_PYTHON.search(text)
    if other is not None:
        return SparkSetupError(f"Spark's Python workers run another Python: {other[1].strip()} ({_SAME_PYTHON})")
    if _DIED in text:
        return SparkFailedError(
            "a Python worker of Spark died: it ran out of memory, native code crashed, or a function ended the "
            "process; see Spark's log"
        )
    if _LOST in text and "not found" in text:
        return SparkFailedError(
            "an executor was lost with tuples that several steps share; the results of these steps are discarded"
        )
    if _OTHER_OUTPUT in text:
        return SparkFailedError(
            "shuffled tuples were lost, and a function returned different ones when Spark computed them again; the "
            "results of the lost tuples are discarded"
        )
    if any(sign in text for sign in _CLOSED):
        return SparkSetupError(
            "the Spark Connect server has closed the session: the server was restarted, or no call of the session "
            "reached it for longer than its setting spark.connect.session.manager.defaultSessionTimeout (this machine "
            "slept, or the network was down). Make a new session, SparkSession.builder.remote(...).create(), and start "
            "the topology with it: it continues where it stopped"
        )
    if any(sign in text for sign in _STOPPED):
        return SparkSetupError(STOPPED)
    return None


def _java_gone(error: BaseException, text: str) -> SparkFailedError | None:
    """Return the error for a Java process that has ended; None for other exceptions.

    Once the process has ended, py4j raises a bare ConnectionRefusedError.
    """
    if isinstance(error, ConnectionRefusedError):
        frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(error.__traceback__)]
        return SparkSetupError(_JAVA_GONE) if any("py4j" in name for name in frames) else None
    from_py4j = type(error).__module__.startswith("py4j")
    return SparkFailedError(_JAVA_GONE) if from_py4j and any(sign in text for sign in _GONE) else None


def _text(error: BaseException) -> str:
    """Return all text of an error: from Python, from PySpark and from Java."""
    parts = [str(error)]
    if isinstance(error, PySparkException):
        parts.append(str(error.getMessage() or ""))
    java = getattr(error, "java_exception", None)
    if java is not None:
        parts.append(str(java))
    return "\n".join(parts)
