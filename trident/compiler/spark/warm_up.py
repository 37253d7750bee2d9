"""The warm-up of Spark while a topology starts: of its JVM, and of Python workers, which import modules in advance.

The first job in a Spark process takes seconds: the JVM loads its classes, and each Python worker imports this library.
A start takes as long for its own imports, the log and the states, so the warm-up runs at the same time. It runs a job
over constant rows, in a separate session, and calls no user code: no spout, no function, no state. Nothing waits for
it, and its failures are only logged: whatever is wrong with Spark, the first batch reports it.
"""

import importlib
import logging
import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from trident.base.interruptible_waits import Flag
from trident.plan.nodes import Node
from trident.plan.traits import PYTHON, traits_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

_NOT_WARM = "Spark was not warmed up; the first batch is slower"

_END_SECONDS = 1.0
"""The most seconds that a stop waits for a warm-up that it has interrupted."""

_INTERRUPT_AGAIN = 0.05
"""Seconds between interruptions."""

_MOST_WORKERS = 32
"""The most Python workers that a warm-up starts."""


class WarmUp:
    """A warm-up of Spark, in a separate thread. `python`: whether the topology needs Python workers."""

    def __init__(self, spark: "SparkSession", python: bool) -> None:
        self._spark = spark
        self._python = python
        self._session: SparkSession | None = None
        self._ended = Flag()
        self._thread = threading.Thread(target=self._run, name="trident-warm-up", daemon=True)

    @classmethod
    def begin(cls, spark: "SparkSession | None", nodes: Iterable[Node]) -> "WarmUp | None":
        """Begin to warm up the Spark of this session (None: of the active one) for a topology of these nodes.

        Return None if there is no session yet, or if an earlier start has warmed its Spark up.
        """
        from pyspark.sql import SparkSession

        python = any(traits_of(node).runner(node) == PYTHON for node in nodes)
        try:
            session = SparkSession.getActiveSession() if spark is None else spark
            if session is None or not _first(session, python):
                return None
        except Exception:  # not a session, or a stopped one: the start reports that
            logger.debug(_NOT_WARM, exc_info=True)
            return None
        warm_up = cls(session, python)
        warm_up._thread.start()  # noqa: SLF001  # its own
        return warm_up

    def wait(self) -> None:
        """Wait until the warm-up has ended."""
        self._thread.join()

    def end(self) -> None:
        """End the warm-up if it still runs. Its thread releases its session."""
        self._ended.set()
        if self._thread.is_alive() and self._session is not None:
            # In a thread of its own: Spark may take long to answer, and this is called when a run stops.
            threading.Thread(target=self._interrupt, args=(self._session,), name="trident-cancel", daemon=True).start()
            self._thread.join(_END_SECONDS)

    def _interrupt(self, session: "SparkSession") -> None:
        try:
            while self._thread.is_alive():  # again and again: its job may not have been submitted yet
                session.interruptAll()
                self._thread.join(_INTERRUPT_AGAIN)
        except Exception:
            logger.debug("the warm-up was not interrupted; it ends by itself", exc_info=True)

    def _run(self) -> None:
        from trident.compiler.spark.sessions import released, run_session

        began = time.perf_counter()
        try:
            self._session = session = run_session(self._spark)
            try:
                if not self._ended.is_set():
                    self._warm(session)
                    logger.debug("Spark is warm after %.1f s", time.perf_counter() - began)
            finally:
                released(session)
        except Exception:
            logger.debug(_NOT_WARM, exc_info=True)

    def _warm(self, session: "SparkSession") -> None:
        import pyarrow as pa

        from trident.compiler.spark.sessions import Confs, Profile, active_session_kept, is_connect
        from trident_spouts.spark_workers import parallelism

        tasks = min(parallelism(session), _MOST_WORKERS) if self._python else 1
        if not is_connect(session):
            session.sparkContext.setJobDescription("trident: warm-up of Spark, no batch")  # of this thread's jobs only
        Confs(session).apply(Profile(small=True, partitions=tasks))
        rows = pa.table({"line": ["warm up"] * tasks})
        with active_session_kept(session):
            frame = session.createDataFrame(rows, "line string")
            if self._python:
                tell_of_sockets(session)
                frame.mapInArrow(import_all, "line string").toArrow()
            else:
                frame.selectExpr("explode(split(line, ' ')) AS word").groupBy("word").count().toArrow()


def tell_of_sockets(session: "SparkSession") -> None:
    """Log how Python functions become faster, if the session's Spark speaks to its workers over TCP."""
    from trident.compiler.spark.sessions import UNIX_SOCKETS

    if str(session.conf.get(UNIX_SOCKETS, "false")).lower() != "true":
        logger.info("start Spark with %s=true: over TCP each task with a Python function waits 40 ms", UNIX_SOCKETS)


def import_all(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Import the modules that functions over batches need, in a worker. Yield the batches unchanged."""
    importlib.import_module("trident.compiler.spark.worker_aggregates")
    yield from batches


_warm: "weakref.WeakKeyDictionary[object, bool]" = weakref.WeakKeyDictionary()
"""For each Spark, whether a start has warmed it up with Python workers. A classic Spark is known by its context."""

_lock = threading.Lock()


def _first(spark: "SparkSession", python: bool) -> bool:
    """Return whether no start has warmed up this Spark before. Record that this start does."""
    key = getattr(spark, "_sc", spark)
    with _lock:
        if key in _warm and _warm[key] >= python:
            return False
        _warm[key] = python
        return True
