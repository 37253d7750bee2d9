"""The driver of a stored topology. It starts from the stored folder, and carries out the operators' requests."""

import contextlib
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trident.base.errors import (
    FencedError,
    TopologyActiveError,
    TopologyConditionError,
    TopologyError,
    TopologyNotFoundError,
    TridentError,
)
from trident.base.version import __version__
from trident.cluster.bounded_output import BoundedOutput
from trident.cluster.code_archive import code_of, digest, load_from, workers_import
from trident.cluster.driver_session import driver_session, is_later
from trident.cluster.program import local_paths
from trident.cluster.stored_topology import Report, StoredTopology, Submitted, Wish
from trident.configuration.layers import FILE, PREFIX
from trident.log import RedisLog
from trident.run.running import RunningTopology
from trident.topology import TridentTopology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.2
"""Seconds between two reads of the operators' requests by a driver."""
_REPORT_SECONDS = 1.0
_UNREAD = -1
"""The number that means "no wish was read yet"."""


def _check_code(stored: StoredTopology, submitted: Submitted) -> None:
    """Raise TopologyError if the stored code is not the submitted one. Warn of another version of this library."""
    if digest(stored.code) != submitted.digest:
        raise TopologyError(f"{stored.code} is not the code that was submitted; kill the topology, and submit it again")
    if submitted.versions["trident"] != __version__:
        logger.warning("topology %r was submitted with version %s", submitted.name, submitted.versions["trident"])


def drive(stored: StoredTopology, standby: bool = False) -> None:
    """Run a stored topology until it is killed or fails.

    With `standby`, wait until no other driver holds its log.

    It reads only stored files: the code comes from the archive, and each option from the submission.

    Raises
    ------
    TopologyActiveError
        A driver of the topology is running, and `standby` is False.
    TopologyError
        The stored code differs from the submitted one.
    """
    submitted = stored.submitted()
    _check_code(stored, submitted)
    standby = standby or submitted.options.get("standby", False)
    with contextlib.ExitStack() as seat:
        if not standby:
            seat.enter_context(stored.driving())
        wish = stored.wish(submitted.id)
        if wish is None or wish.kill is not None:
            if not (standby and stored.is_driven()):  # otherwise its driver removes it after its last commit
                stored.remove(submitted.id)
            return
        reporter = _Reporter(stored, wish.number)
        started = not standby  # until it has started, a standby writes no report: another driver does
        try:
            _work_in(submitted)
            with code_of(stored.code), _spark(submitted, stored) as spark:
                _forget_layers()
                topology = load_from(stored.code, submitted.program)
                _check_paths(submitted, topology)
                options = _options(submitted, wish)
                if standby:  # the wish may change while a standby waits, so read it before the first plan
                    options["active"], reporter.number = False, _UNREAD
                running = topology.start(spark, **options, standby=standby)
                started = True
                _follow(stored, submitted.id, running, reporter, seat if standby else None)
        except BaseException as error:
            if started and not isinstance(error, FencedError):  # after a takeover the other driver writes the reports
                asked = isinstance(error, SystemExit | KeyboardInterrupt)
                reporter.tell("STOPPED" if asked else "FAILED", error=None if asked else _told(error))
            raise


def _forget_layers() -> None:
    """Ignore this machine's configuration file and variables: all options keep the values that the submit stored."""
    os.environ[FILE] = ""
    for variable in [name for name in os.environ if name.startswith(PREFIX)]:
        del os.environ[variable]


def _work_in(submitted: Submitted) -> None:
    """Work in the folder of the submit, if it is there, so that relative paths keep their meaning."""
    if Path(submitted.folder).is_dir():
        os.chdir(submitted.folder)


def _check_paths(submitted: Submitted, topology: TridentTopology) -> None:
    """Raise TopologyError if the folder of the submit is gone, and the program's relative paths now lead elsewhere."""
    folder, paths = submitted.folder, local_paths(topology)
    if Path(folder).is_dir() or paths == submitted.paths:
        return
    moved = ", ".join(sorted({*submitted.paths} - {*paths}))
    raise TopologyError(
        f"topology {submitted.name!r} was submitted in the folder {folder}, which no longer exists, so the relative "
        f"paths of the program would no longer lead to {moved}: create the folder again; or kill the topology and "
        f"submit it with absolute paths and the same checkpoint, from which it continues"
    )


@contextlib.contextmanager
def _spark(submitted: Submitted, stored: StoredTopology) -> "Iterator[SparkSession | None]":
    """Yield the driver's Spark session, with the stored code on its workers; None for a run that needs none yet.

    That is a run on the embedded engine, or on engine "auto" without a master, which may start a local Spark later.
    """
    engine = submitted.options["engine"]
    if engine == "embedded" or is_later(engine, submitted.master, submitted.confs):
        with workers_import(stored.code):
            yield None
        return
    with driver_session(submitted.name, submitted.master, submitted.confs) as session:
        session.sparkContext.addPyFile(str(stored.code))
        yield session


def _options(submitted: Submitted, wish: Wish) -> dict[str, Any]:
    log = submitted.options["log"]
    return {
        **{option: value for option, value in submitted.options.items() if option != "standby"},
        "name": submitted.name,
        "log": None if log is None else RedisLog(**log),
        "active": wish.active,
        "parallelismHints": wish.hints or None,
    }


class _Reporter:
    """Writes the driver's report whenever the report has changed or a second has passed."""

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
    stored: StoredTopology,
    id: str,
    running: RunningTopology,
    reporter: _Reporter,
    seat: contextlib.ExitStack | None,
) -> None:
    """Carry out each new request of the operators (`Wish`), until the run ends or a request removes the topology.

    `seat`, for a standby, receives the driver's lock as soon as the lock is free. A suspended former driver may still
    hold it.
    """
    error: str | None = None
    output = BoundedOutput(stored.said)
    try:
        with running:
            while True:
                try:
                    wish = stored.wish(id)
                except TopologyError as damage:  # the topology itself continues
                    wish, error = Wish(reporter.number), _told(damage)
                if wish is None:
                    return
                if wish.kill is not None:
                    _kill(stored, id, running, reporter, wish.kill)
                    return
                if wish.number != reporter.number:
                    error = _carry_out(running, reporter, wish)
                    reporter.number = wish.number
                if seat is not None:
                    with contextlib.suppress(TopologyActiveError, TopologyNotFoundError):
                        seat.enter_context(stored.driving())
                        seat = None
                reporter.committed = running.asOfTxid
                reporter.tell(running.condition, error)
                output.bound()
                if running.awaitTermination(LOOK_SECONDS):
                    break
    finally:
        with contextlib.suppress(FencedError):  # another driver writes the reports now
            reporter.committed = running.asOfTxid
    reporter.tell(running.condition, error)  # all planned batches are committed


def _kill(stored: StoredTopology, id: str, running: RunningTopology, reporter: _Reporter, seconds: float) -> None:
    reporter.tell("KILLED")
    with contextlib.suppress(TopologyConditionError):  # the run has just ended by itself
        running.deactivate(wait=seconds)
    running.stop()
    stored.remove(id)


def _carry_out(running: RunningTopology, reporter: _Reporter, wish: Wish) -> str | None:
    """Carry out a wish. Return the reason if that is not possible; None if it was carried out."""
    try:
        if any(running.parallelismHints[step] != count for step, count in wish.hints.items()):
            reporter.tell("REBALANCING")
            running.rebalance(wish.hints)
        if wish.active:
            running.activate()
        else:
            running.deactivate()
    except (TridentError, TimeoutError) as error:
        logger.error("topology %r was not changed: %s", running.name, error)
        return _told(error)
    return None


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"
