"""The sessions that batches run in: one a slot, so that cancelling one batch's work touches no other, and so that the
session that a user gave is never changed."""

import contextlib
import os
import sys
import threading
import uuid
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from trident.compiler.engine import StageResult
from trident.compiler.program import Stage
from trident.compiler.spark.pinned_confs import PINNED, pin

SMALL_ROWS = 20_000
"""Up to so many tuples a batch is small: one job with few tasks, and nothing re-planned on the way."""

SMALL_SECONDS = 0.5
"""A batch of unknown size that took less than this is taken for small the next time."""


TINY_ROWS = 5_000
"""Up to so many tuples one shuffle partition is enough: every further one is a task that costs more than its rows."""


MEETING_ROWS = 200_000
"""Up to so many accumulators meet on the driver faster than in a shuffle and the tasks behind it."""

RELEASE_SECONDS = 5.0
"""How long a Connect server is waited for when a session is given back to it."""


@dataclass(frozen=True, slots=True)
class Profile:
    """How a batch of some size is best run. `together`: whether all tasks run in the driver's own process. `placed`:
    whether partitions have to be there though nothing is in them."""

    small: bool
    partitions: int
    together: bool = True
    placed: bool = False

    @property
    def confs(self) -> dict[str, str | None]:
        """What a run's session is set to; None where it is what the given session says."""
        return {
            "spark.sql.adaptive.enabled": "false" if self.small else "true",
            "spark.sql.shuffle.partitions": str(self.partitions),
            "spark.sql.leafNodeDefaultParallelism": str(self.partitions) if self.small else None,
        }

    @property
    def without(self) -> dict[str, tuple[str, ...]]:
        """Rules of Spark's that a run's session does not follow, by the conf that lists such rules: they make of a plan
        over nothing a plan without partitions."""
        return {conf: rules if self.placed else () for conf, rules in _PRUNING.items()}


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
    """The confs of a run's session, set only where they change: each one is a round trip."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._own: dict[str, str | None] = {}
        self._set: dict[str, str | None] = {}

    def apply(self, profile: Profile) -> None:
        """Set the session up for a batch."""
        for key, value in profile.confs.items():
            self._apply(key, self._known(key) if value is None else value)
        for key, rules in profile.without.items():
            if rules or key in self._own:
                own = self._known(key)
                self._apply(key, ",".join([*filter(None, [own]), *rules]) or None)

    def _known(self, key: str) -> str | None:
        """What the session said before we did."""
        if key not in self._own:
            self._own[key] = self._set[key] = self._session.conf.get(key, None)
        return self._own[key]

    def _apply(self, key: str, wanted: str | None) -> None:
        self._known(key)
        if self._set[key] != wanted:
            if wanted is None:
                self._session.conf.unset(key)
            else:
                self._session.conf.set(key, wanted)
            self._set[key] = wanted


def run_session(spark: SparkSession) -> SparkSession:
    """A session of our own beside `spark`: the same runtime confs but for the pinned ones, the same catalog and
    database, its own jobs."""
    session = spark.newSession()
    _runs.add(session)
    there, given = session.conf.getAll, spark.conf.getAll
    for key, value in given.items():
        if key not in PINNED and there.get(key) != value:
            with contextlib.suppress(PySparkException):  # a static conf: it is the same in every session
                session.conf.set(key, value)
    pin(session, given)
    catalog, database = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    if (session.catalog.currentCatalog(), session.catalog.currentDatabase()) != (catalog, database):
        session.catalog.setCurrentCatalog(catalog)
        session.catalog.setCurrentDatabase(database)
    return session


def released(session: SparkSession) -> None:
    """Give a session of ours back. A classic one holds nothing but memory; a Connect one lives on the server, and its
    client, while it is open, asks the server once more when the process exits: for minutes if nobody answers."""
    if not is_connect(session):
        return
    lent = _lent.pop(session, {})
    releasing = threading.Thread(target=_release, args=(session, lent), name="trident-release", daemon=True)
    releasing.start()
    releasing.join(RELEASE_SECONDS)
    session.client.close()


def _release(session: SparkSession, lent: "_Lent") -> None:
    with contextlib.suppress(Exception):  # a server that is gone has released its sessions
        for _, name in lent.values():
            session.catalog.dropGlobalTempView(name)
        session.client.release_session()


_Lent: TypeAlias = dict[int, tuple[DataFrame, str]]
_lent: "weakref.WeakKeyDictionary[SparkSession, _Lent]" = weakref.WeakKeyDictionary()
"""By session of ours: the user's frames that are seen in it, by id, and under which name."""


def seen_in(session: SparkSession, frame: DataFrame) -> DataFrame:
    """A frame of the user's session, to be joined with those of a session of ours. Connect joins only frames of one
    session; what all sessions of a server see is a global view."""
    if not is_connect(session) or not is_connect(frame.sparkSession):
        return frame
    lent = _lent.setdefault(session, {})
    if id(frame) not in lent:
        name = f"trident_{uuid.uuid4().hex}"
        frame.createGlobalTempView(name)
        lent[id(frame)] = frame, name
    database = session.conf.get("spark.sql.globalTempDatabase", "global_temp")
    return session.table(f"{database}.{lent[id(frame)][1]}")


_runs: "weakref.WeakSet[SparkSession]" = weakref.WeakSet()
_given: list[SparkSession] = []
"""The session that was active before ours, at most one."""


@contextlib.contextmanager
def active_session_kept() -> Iterator[None]:
    """Classic ``createDataFrame`` makes its session the active one of the whole process; here it does not stay so."""
    active = getattr(SparkSession, "_activeSession", None)
    if active is not None and active not in _runs:
        _given[:] = [active]
    try:
        yield
    finally:
        if _given and getattr(SparkSession, "_activeSession", None) in _runs:
            SparkSession._activeSession = _given[0]


def checkpointed(frame: DataFrame) -> DataFrame:
    """The frame's rows, evaluated now and never again. Connect hands what it checkpoints to the thread's active
    session in place of the frame's own (pyspark 4.3), so that one is active meanwhile."""
    if not is_connect(frame.sparkSession):
        return frame.localCheckpoint()
    thread = type(frame.sparkSession)._active_session  # type: ignore[attr-defined]
    before, thread.session = getattr(thread, "session", None), frame.sparkSession
    try:
        return frame.localCheckpoint()
    finally:
        thread.session = before


def free(frame: DataFrame) -> None:
    """Let go of the rows of a checkpointed frame. Spark does so by itself, but only some time after its garbage
    collector has found that nobody refers to them: until then they fill its memory, and then its disks. A Connect
    client has no means to ask for it."""
    with contextlib.suppress(Exception):  # not public: another version of Spark may have it otherwise
        frame._jdf.queryExecution().logical().rdd().unpersist(False)


def local_session() -> SparkSession:
    """A session where there is none: what Spark makes by default, with workers that run this Python."""
    # else they are whatever python3 is first on the PATH: not this one in a notebook whose kernel was started from
    # outside its environment
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    elsewhere = {"SPARK_REMOTE", "SPARK_API_MODE"} & {*os.environ}
    if getattr(SparkSession, "_instantiatedSession", None) is None and not elsewhere:
        builder = builder.config("spark.ui.showConsoleProgress", "false")  # a bar a batch, through all that is printed
    return builder.getOrCreate()


def is_connect(session: SparkSession) -> bool:
    """Whether the session is a Connect client's. (Asking a classic one for its `client` raises.)"""
    return type(session).__module__.startswith("pyspark.sql.connect")


def local_cores(spark: SparkSession) -> int | None:
    """How many tasks run at once where driver and executors are one process (a ``local`` master), else None."""
    master = spark.conf.get("spark.master", "") or ""
    if not master.startswith("local") or master.startswith("local-cluster"):
        return None
    inside = master.partition("[")[2].rstrip("]").partition(",")[0]
    if inside == "*":
        return os.cpu_count() or 1
    return int(inside) if inside.isdigit() else 1


class Sizes:
    """What earlier batches tell about how to run the next: shared by all slots of an engine."""

    def __init__(self, spark: SparkSession, inline_bytes: int) -> None:
        self._inline = inline_bytes
        cores = local_cores(spark)
        self._together = cores is not None
        self._tasks = cores or max(1, int(spark.conf.get("spark.sql.shuffle.partitions", "200") or 200))
        self._lock = threading.Lock()
        self._seconds: dict[tuple[str, int], float] = {}
        self._large: dict[tuple[str, int], frozenset[str]] = {}
        self._rows: dict[tuple[str, int], dict[str, int]] = {}

    def profile(self, group: str, stage: Stage, rows: int | None) -> Profile:
        """How to run a batch of so many tuples (None: nobody knows)."""
        if rows is None:
            small = self._seconds.get((group, stage.number), SMALL_SECONDS) < SMALL_SECONDS
            partitions = min(4, self._tasks) if small else self._tasks
        else:
            small = rows <= SMALL_ROWS
            partitions = self._tasks if not small else 1 if rows <= TINY_ROWS else min(4, self._tasks)
        return Profile(small, partitions, self._together)

    def large(self, group: str, stage: Stage) -> frozenset[str]:
        """The outputs whose last result was too large to come to the driver."""
        return self._large.get((group, stage.number), frozenset())

    def few(self, group: str, stage: Stage) -> frozenset[str]:
        """The outputs whose last result had so few rows that accumulators of all tasks may come to the driver."""
        rows = self._rows.get((group, stage.number), {})
        return frozenset(name for name, count in rows.items() if count * self._tasks <= MEETING_ROWS)

    def ran(self, group: str, stage: Stage, result: StageResult, seconds: float) -> None:
        """Remember what a batch came to."""
        large = set()
        for name, found in result.results.items():
            if isinstance(found, pa.Table):
                too_large = found.nbytes > self._inline
            else:
                too_large = sum(file.bytes for file in found.files) * _LZ4_RATIO > self._inline
            if too_large:
                large.add(name)
        rows = {name: found.num_rows for name, found in result.results.items() if isinstance(found, pa.Table)}
        with self._lock:
            self._seconds[group, stage.number] = seconds
            self._large[group, stage.number] = frozenset(large)
            self._rows[group, stage.number] = rows

    def failed(self, group: str, stage: Stage, error: BaseException) -> None:
        """A result that was too large for the driver is written by the executors the next time."""
        if "maxResultSize" in str(error):
            with self._lock:
                self._large[group, stage.number] = frozenset(output.name for output in stage.outputs)
                self._rows.pop((group, stage.number), None)


_LZ4_RATIO = 4
"""How much larger a frozen file may be in memory: a result goes inline again only where it surely fits."""
