"""The sessions in which batches run, one for each slot.

So cancelling one batch's job affects no other batch, and the user's session is never changed.
"""

import contextlib
import os
import socket
import sys
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from trident.base.class_archive import class_archive_in_use
from trident.base.errors import SparkSetupError
from trident.base.java import use_bundled_java, why_no_java
from trident.compiler.spark.connect_sessions import is_closed_here, keep_open, let_go, retry_until_stopped
from trident.compiler.spark.pinned_confs import PINNED, pin

if TYPE_CHECKING:  # workers import this module, and need none of the plan
    from trident.compiler.program import Stage
    from trident.frozen.results import StageResult

SMALL_ROWS = 20_000
"""The most tuples of a small batch. It runs as one job with few tasks, and Spark does not re-plan it."""

SMALL_SECONDS = 0.5
"""A batch of unknown size that took less than this is treated as small the next time."""

TINY_ROWS = 5_000
"""The most tuples for which one shuffle partition is enough: a task for a second partition would cost more than it
saves."""


MERGE_BYTES = 16 << 20
"""The most bytes of accumulators that the driver collects from all tasks in order to merge them."""

RELEASE_SECONDS = 5.0
"""The most seconds to wait for a Connect server when a session is released."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The way to run a batch of a certain size. `partitions` is the number of shuffle partitions.

    `small`: with few tasks, and without adaptive re-planning. `one_process`: all tasks run in the driver's own process.
    `partitioned`: partitions have to exist even if they are empty.
    """

    small: bool
    partitions: int
    one_process: bool = True
    partitioned: bool = False

    @property
    def tiny(self) -> bool:
        """Whether one task does all the work faster than several that shuffle their rows."""
        return self.small and self.partitions == 1

    @property
    def confs(self) -> dict[str, str | None]:
        """Spark confs to set in a run's session, by name.

        None restores the value that the session had before `Confs` first changed it.
        """
        return {
            "spark.sql.adaptive.enabled": "false" if self.small else "true",
            "spark.sql.shuffle.partitions": str(self.partitions),
            "spark.sql.leafNodeDefaultParallelism": str(self.partitions) if self.small else None,
        }

    @property
    def without(self) -> dict[str, tuple[str, ...]]:
        """Lists of the optimizer rules of Spark that a run's session excludes, by the conf that takes the list.

        These rules turn a plan over no rows into a plan without partitions.
        """
        return {conf: rules if self.partitioned else () for conf, rules in _PRUNING.items()}


_PRUNING = {
    "spark.sql.optimizer.excludedRules": (
        "org.apache.spark.sql.catalyst.optimizer.PropagateEmptyRelation",
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
    ),
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    ),
}


class Confs:
    """Sets confs of a run's session. Sets only those that change, because each one is a round trip to Spark."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._own: dict[str, str | None] = {}
        self._set: dict[str, str | None] = {}

    def apply(self, profile: Profile) -> None:
        """Set the confs of the session that a batch with this profile needs."""
        for key, value in profile.confs.items():
            self._apply(key, self._value_before(key) if value is None else value)
        for key, rules in profile.without.items():
            if rules or key in self._own:
                own = self._value_before(key)
                self._apply(key, ",".join([*filter(None, [own]), *rules]) or None)

    def _value_before(self, key: str) -> str | None:
        """Return the value of the conf in the session before this object changed it."""
        if key not in self._own:
            self._own[key] = self._set[key] = self._session.conf.get(key, None)
        return self._own[key]

    def _apply(self, key: str, wanted: str | None) -> None:
        self._value_before(key)
        if self._set[key] != wanted:
            if wanted is None:
                self._session.conf.unset(key)
            else:
                self._session.conf.set(key, wanted)
            self._set[key] = wanted


def run_session(spark: SparkSession) -> SparkSession:
    """Return a new session, separate from `spark`, in which a run starts its jobs.

    It has the runtime confs of `spark` but for the pinned ones, and the same catalog and database. A Connect server
    does not close it until it is `released`, even if it is idle.
    """
    session = spark.newSession()
    _run_sessions.add(session)
    if is_connect(session):
        keep_open(session, spark)
        retry_until_stopped(session, spark)
    own_conf, user_conf = session.conf.getAll, spark.conf.getAll
    for key, value in user_conf.items():
        if key not in PINNED and own_conf.get(key) != value:
            with contextlib.suppress(PySparkException):  # a static conf: it is the same in every session
                session.conf.set(key, value)
    pin(session, user_conf)
    catalog, database = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    if (session.catalog.currentCatalog(), session.catalog.currentDatabase()) != (catalog, database):
        session.catalog.setCurrentCatalog(catalog)
        session.catalog.setCurrentDatabase(database)
    return session


def released(session: SparkSession) -> None:
    """Release a session that `run_session` returned.

    A classic session holds nothing but memory. A Connect session lives on the server; and its client, if it is still
    open when the process exits, calls the server once more, which takes minutes if the server does not answer.
    """
    if not is_connect(session):
        return
    let_go(session)
    views = _views.pop(session, {})
    releasing = threading.Thread(target=_release, args=(session, views), name="trident-release", daemon=True)
    releasing.start()
    releasing.join(RELEASE_SECONDS)
    session.client.close()


def _release(session: SparkSession, views: "_Views") -> None:
    with contextlib.suppress(Exception):  # a server that is gone has released its sessions
        for _, name in views.values():
            session.catalog.dropGlobalTempView(name)
        session.client.release_session()


_Views: TypeAlias = dict[int, tuple[DataFrame, str]]
_views: "weakref.WeakKeyDictionary[SparkSession, _Views]" = weakref.WeakKeyDictionary()
"""For each session of a run: the user's frames that are visible in it, by id, with the names of their views."""


def visible_in(session: SparkSession, frame: DataFrame) -> DataFrame:
    """Return a frame of the user's session in a form that can be joined with frames of a run's `session`.

    Connect joins only frames of one session; a global view is visible in all sessions of a server.
    """
    if not is_connect(session) or not is_connect(frame.sparkSession):
        return frame
    views = _views.setdefault(session, {})
    if id(frame) not in views:
        name = f"trident_{uuid.uuid4().hex}"
        frame.createGlobalTempView(name)
        views[id(frame)] = frame, name
    database = session.conf.get("spark.sql.globalTempDatabase", "global_temp")
    return session.table(f"{database}.{views[id(frame)][1]}")


_run_sessions: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()
_active_before: list[SparkSession] = []
"""The user's session that was active before a run's session became active: at most one."""


_activations: "weakref.WeakKeyDictionary[object, Any]" = weakref.WeakKeyDictionary()
"""For each Spark context, the function of its JVM that makes a session the active one of a thread."""


@contextlib.contextmanager
def active_session_kept(within: SparkSession) -> Iterator[None]:
    """Make `within` the active session in this block, and restore the user's one when the block ends.

    PySpark notes the lines of the user's Column calls, which errors name, only if there is an active session; the first
    call of a process without one ends that for all later calls. Classic ``createDataFrame`` makes the session that it
    is called on the active one of the whole process.
    """
    if is_connect(within):
        with _active_in_thread(within):
            yield
        return
    active = getattr(SparkSession, "_activeSession", None)
    if active is not None and active not in _run_sessions:
        _active_before[:] = [active]
    context = within.sparkContext
    if context not in _activations:
        _activations[context] = SparkSession._get_j_spark_session_class(within._jvm).setActiveSession  # noqa: SLF001
    _activations[context](within._jsparkSession)  # noqa: SLF001
    SparkSession._activeSession = within  # noqa: SLF001
    try:
        yield
    finally:
        if _active_before and getattr(SparkSession, "_activeSession", None) in _run_sessions:
            SparkSession._activeSession = _active_before[0]  # noqa: SLF001


@contextlib.contextmanager
def _active_in_thread(session: SparkSession) -> Iterator[None]:
    """Make a Connect session the active one of this thread; other threads keep theirs."""
    thread = type(session)._active_session  # type: ignore[attr-defined]  # noqa: SLF001
    before, thread.session = getattr(thread, "session", None), session
    try:
        yield
    finally:
        thread.session = before


def checkpointed(frame: DataFrame) -> DataFrame:
    """Return the frame's rows, evaluated once.

    Connect gives a checkpoint to the thread's active session in place of the frame's own session (pyspark 4.3), so the
    frame's session is the active one meanwhile.
    """
    if not is_connect(frame.sparkSession):
        return frame.localCheckpoint()
    with _active_in_thread(frame.sparkSession):
        return frame.localCheckpoint()


def unpersist(frame: DataFrame) -> None:
    """Free the rows of a checkpointed frame.

    Spark frees them by itself, but only some time after its garbage collector has found that nothing refers to them:
    until then the rows fill its memory, and then its disks. A Connect client has no means to free them earlier.
    """
    with contextlib.suppress(Exception):  # not a public API: another version of Spark may differ
        frame._jdf.queryExecution().logical().rdd().unpersist(False)  # noqa: SLF001


UNIX_SOCKETS = "spark.python.unix.domain.socket.enabled"
"""The setting of Spark with which it speaks to its Python workers over Unix sockets."""

OWN_SPARK: Mapping[str, str] = MappingProxyType(
    {
        # else each batch draws a progress bar into the program's output
        "spark.ui.showConsoleProgress": "false",
        # else each task with a Python function waits 40 ms for an acknowledgement of the loopback's TCP
        **({UNIX_SOCKETS: "true"} if hasattr(socket, "AF_UNIX") else {}),
    }
)
"""Settings of a Spark that the library starts itself."""


def is_spark_up() -> bool:
    """Return whether this process has a Spark session that `local_session` would return."""
    return (
        getattr(SparkSession, "_instantiatedSession", None) is not None or SparkSession.getActiveSession() is not None
    )


def local_session(master: str | None = None, confs: Mapping[str, str] = MappingProxyType({})) -> SparkSession:
    """Return the session that Spark creates by default, with workers that run the Python of this process.

    `master` and `confs` hold for a Spark that is not up yet.
    """
    # else the workers run whatever python3 is first on the PATH: not this Python in a notebook whose kernel was started
    # from outside its environment
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder if master is None else SparkSession.builder.master(master)
    elsewhere = {"SPARK_REMOTE", "SPARK_API_MODE"} & {*os.environ}
    ours = getattr(SparkSession, "_instantiatedSession", None) is None and not elsewhere
    if not is_spark_up() and "SPARK_REMOTE" not in os.environ:
        use_bundled_java()
    for conf, value in {**(OWN_SPARK if ours else {}), **confs}.items():
        builder = builder.config(conf, value)
    try:
        with class_archive_in_use() if ours else contextlib.nullcontext():
            return builder.getOrCreate()
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        why = why_no_java() or "see its output above; its Java is new enough."
        raise SparkSetupError(f"Spark's JVM did not start: {why}") from error


def is_connect(session: SparkSession) -> bool:
    """Return whether the session is a Connect client's.

    The attribute `client` does not show it, because reading it on a classic session raises an error.
    """
    return type(session).__module__.startswith("pyspark.sql.connect")


def is_stopped(session: SparkSession) -> bool:
    """Return whether a session was stopped: a classic one if any session of its context was, then it has no context.

    A session of a run on Connect counts as stopped if the user's session was. Its own client stays open.
    """
    if is_connect(session):
        return is_closed_here(session)
    return session.sparkContext._jsc is None  # noqa: SLF001


def local_cores(spark: SparkSession) -> int | None:
    """Return how many tasks run at once under a ``local`` master, where driver and executors are one process.

    Return None under any other master.
    """
    master = spark.conf.get("spark.master", "") or ""
    if not master.startswith("local") or master.startswith("local-cluster"):
        return None
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


class Sizes:
    """The sizes and times of earlier batches (rows, seconds, large results), which decide how the next one is run.

    All slots of an engine share it.
    """

    def __init__(self, spark: SparkSession, inline_bytes: int) -> None:
        self._inline = inline_bytes
        cores = local_cores(spark)
        self._one_process = cores is not None
        self._tasks = cores or max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
        self._lock = threading.Lock()
        self._seconds: dict[tuple[str, int], float] = {}
        self._large: dict[tuple[str, int], frozenset[str]] = {}
        self._rows: dict[tuple[str, int], dict[str, int]] = {}

    def profile(self, group: str, stage: "Stage", rows: int | None) -> Profile:
        """Return how to run a batch of `rows` tuples (None: the number is not known)."""
        if rows is None:
            small = self._seconds.get((group, stage.number), SMALL_SECONDS) < SMALL_SECONDS
            partitions = min(4, self._tasks) if small else self._tasks
        else:
            small = rows <= SMALL_ROWS
            partitions = self._tasks if not small else 1 if rows <= TINY_ROWS else min(4, self._tasks)
        return Profile(small, partitions, self._one_process)

    def large(self, group: str, stage: "Stage") -> frozenset[str]:
        """Return the outputs with a last result that was too large to be collected on the driver."""
        return self._large.get((group, stage.number), frozenset())

    def accumulators(self, group: str, stage: "Stage") -> Mapping[str, int]:
        """Return the most accumulators of all tasks, by each output's last result, for outputs of a few megabytes."""
        rows = self._rows.get((group, stage.number), {})
        return {name: count * self._tasks for name, count in rows.items()}

    def ran(self, group: str, stage: "Stage", result: "StageResult", seconds: float) -> None:
        """Remember the time and the sizes of a batch's results."""
        large = set()
        for name, outcome in result.results.items():
            if isinstance(outcome, pa.Table):
                too_large = outcome.nbytes > self._inline
            else:
                too_large = sum(file.bytes for file in outcome.files) * _LZ4_RATIO > self._inline
            if too_large:
                large.add(name)
        tables = {name: outcome for name, outcome in result.results.items() if isinstance(outcome, pa.Table)}
        rows = {name: table.num_rows for name, table in tables.items() if table.nbytes * self._tasks <= MERGE_BYTES}
        with self._lock:
            self._seconds[group, stage.number] = seconds
            self._large[group, stage.number] = frozenset(large)
            self._rows[group, stage.number] = rows

    def failed(self, group: str, stage: "Stage", error: BaseException) -> None:
        """Remember that a result was too large for the driver, so that executors write the next one into files."""
        if "maxResultSize" in str(error):
            with self._lock:
                self._large[group, stage.number] = frozenset(output.name for output in stage.outputs)
                self._rows.pop((group, stage.number), None)


_LZ4_RATIO = 4
"""The greatest factor by which a frozen file grows in memory. A result is collected again only if it surely fits."""
