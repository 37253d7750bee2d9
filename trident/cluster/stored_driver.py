"""The driver of a stored topology. It starts from the stored folder, and carries out what operators want."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from trident.base.errors import FencedError, TopologyActiveError, TopologyConditionError, TopologyError, TridentError
from trident.base.version import __version__
from trident.cluster.code_archive import code_of, digest, load_from
from trident.cluster.stored_topology import Report, StoredTopology, Submitted, Wish
from trident.configuration.layers import FILE, PREFIX
from trident.log import RedisLog
from trident.run.running import RunningTopology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""Seconds between two looks of a driver at what operators want."""
_REPORT_SECONDS = 1.0


def drive(stored: StoredTopology, standby: bool = False) -> None:
    """Run a stored topology until it is killed or fails.

    With `standby`, wait until no other driver holds its log.

    It reads only what is stored: the code comes from the archive, and each option from the submission.

    Raises
    ------
    TopologyActiveError
        A driver of the topology lives, and `standby` is False.
    TopologyError
        The stored code is not what was submitted.
    """
    submitted = stored.submitted()
    if digest(stored.code) != submitted.digest:
        raise TopologyError(f"{stored.code} is not the code that was submitted; kill the topology, and submit it again")
    if submitted.versions["trident"] != __version__:
        logger.warning("topology %r was submitted with version %s", submitted.name, submitted.versions["trident"])
    with contextlib.ExitStack() as seat:
        if not standby:
            seat.enter_context(stored.driving())
        wish = stored.wish()
        if wish is None or wish.kill is not None:
            stored.remove()
            return
        reporter = _Reporter(stored, wish.number)
        started = not standby  # until it has started, a standby does not speak for the topology: another driver does
        try:
            with code_of(stored.code), _spark(submitted, stored) as spark:
                _forget_layers()
                topology = load_from(stored.code, submitted.program)
                running = topology.start(spark, **_options(submitted, wish), standby=standby)
                started = True
                _follow(stored, running, reporter, seat if standby else None)
        except BaseException as error:
            if started and not isinstance(error, FencedError):  # after a takeover the other driver speaks
                asked = isinstance(error, SystemExit | KeyboardInterrupt)
                reporter.tell("STOPPED" if asked else "FAILED", error=None if asked else _told(error))
            raise


def _forget_layers() -> None:
    """Ignore this machine's configuration file and variables: all options keep the values that the submit stored."""
    os.environ[FILE] = ""
    for variable in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[variable]


def _options(submitted: Submitted, wish: Wish) -> dict[str, Any]:
    log = submitted.options["log"]
    return {
        **submitted.options,
        "name": submitted.name,
        "log": None if log is None else RedisLog(**log),
        "active": wish.active,
        "parallelismHints": wish.hints or None,
    }


@contextlib.contextmanager
def _spark(submitted: Submitted, stored: StoredTopology) -> "Iterator[SparkSession | None]":
    """Yield the driver's Spark session, whose workers have the stored code; None for the embedded engine."""
    if submitted.options["engine"] == "embedded":
        yield None
        return
    from trident.compiler.spark.sessions import local_session

    session = local_session(submitted.master, {"spark.app.name": submitted.name, **submitted.confs})
    session.sparkContext.addPyFile(str(stored.code))
    try:
        yield session
    finally:
        session.stop()


class _Reporter:
    """Writes the driver's report whenever it has changed or a second has passed."""

    def __init__(self, stored: StoredTopology, number: int) -> None:
        self._stored = stored
        self.number = number
        self.committed: dict[str, int] = {}
        """The last committed txid of each batch group."""
        self._told_at = 0.0
        self._told: Report | None = None

    def tell(self, condition: str, error: str | None = None) -> None:
        report = Report(
            number=self.number,
            condition=condition,
            host=socket.gethostname(),
            pid=os.getpid(),
            committed=self.committed,
            error=error,
        )
        changed = self._told is None or (report.number, report.condition, report.error) != (
            self._told.number,
            self._told.condition,
            self._told.error,
        )
        if changed or (report != self._told and time.monotonic() - self._told_at >= _REPORT_SECONDS):
            self._told, self._told_at = report, time.monotonic()
            with contextlib.suppress(FileNotFoundError):  # the topology was removed
                self._stored.write("report.json", report, durable=False)


def _follow(
    stored: StoredTopology, running: RunningTopology, reporter: _Reporter, seat: contextlib.ExitStack | None
) -> None:
    """Carry out each new wish, until the run ends or a wish removes the topology.

    `seat`: for a standby, receives the driver's lock as soon as it is free: the former driver may still hold it if its
    process is only suspended.
    """
    error: str | None = None
    try:
        with running:
            while True:
                if seat is not None:
                    with contextlib.suppress(TopologyActiveError):
                        seat.enter_context(stored.driving())
                        seat = None
                reporter.committed = running.asOfTxid
                reporter.tell(running.condition, error)
                if running.awaitTermination(LOOK_SECONDS):
                    break
                wish = stored.wish()
                if wish is None:
                    return
                if wish.kill is not None:
                    _kill(stored, running, reporter, wish.kill)
                    return
                if wish.number != reporter.number:
                    error = _carry_out(running, reporter, wish)
                    reporter.number = wish.number
    finally:
        with contextlib.suppress(FencedError):  # another driver speaks for the topology now
            reporter.committed = running.asOfTxid
    reporter.tell(running.condition, error)  # it has drained


def _kill(stored: StoredTopology, running: RunningTopology, reporter: _Reporter, seconds: float) -> None:
    reporter.tell("KILLED")
    with contextlib.suppress(TopologyConditionError):  # it has just ended by itself
        running.deactivate(wait=seconds)
    running.stop()
    stored.remove()


def _carry_out(running: RunningTopology, reporter: _Reporter, wish: Wish) -> str | None:
    """Carry out a wish. Return why that is not possible; None if it was carried out."""
    try:
        if any(running.parallelismHints[step] != count for step, count in wish.hints.items()):
            reporter.tell("REBALANCING")
            running.rebalance(wish.hints)
        if wish.active:
            running.activate()
        else:
            running.deactivate()
    except (TridentError, TimeoutError) as error:
        logger.error("topology %r is not changed: %s", running.name, error)
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
