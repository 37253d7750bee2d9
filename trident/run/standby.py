"""A standby: it watches the log until the log's driver has stopped, or has not renewed its lease for too long."""

import contextlib
import logging
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING

from trident.base.attempt import Holder, Lease
from trident.base.errors import StandbyStoppedError, TopologyError
from trident.base.interruptible_waits import Flag
from trident.base.log_fields import RunLogger
from trident.configuration.settings import Settings
from trident.log.protocol import NO_LEASE, TransactionLog
from trident.run import registry

if TYPE_CHECKING:
    from trident.run.running import RunningTopology

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.5
"""The longest time between two reads of the log."""
_STOP_SECONDS = 20.0
"""The most seconds that a stop takes. The stop may come in the middle of a takeover."""


class Standby:
    """A start that waits to take over; ``trident.standbys()`` lists those of this process."""

    def __init__(self, settings: Settings) -> None:
        """Create the standby; `start` calls this."""
        self.name = settings.name
        """The topology's name."""
        self.holder: Holder | None = None
        """The holder of the log, as far as the log has it: ``host``, ``pid``, ``since``, ``epoch``."""
        self._settings = settings
        self._logger = RunLogger(logger, topology=settings.name)
        self._asked: SimpleQueue[None] = SimpleQueue()
        """Holds an entry once a stop was requested. A signal handler may put into this queue."""
        self._stopped = False
        self._ended = Flag()
        self._running: RunningTopology | None = None

    # --- waiting ---------------------------------------------------------------------------------------------------

    def wait(self, log: TransactionLog) -> Lease:
        """Return the lease that this driver may replace, once its holder has given it back or stopped renewing it.

        The time without a renewal is measured only here, by this machine's monotonic clock, from one read of the log to
        the next. A time in which this process did not read the log (it was suspended, or the log did not answer) counts
        as one interval, because the same cause may have delayed the driver.

        Raises StandbyStoppedError after `stop`, and LogError if the log is gone or does not answer for long.
        """
        clock, seen, silent, told = self._settings.clock, None, 0.0, NO_LEASE
        before = clock.monotonic()
        while True:
            lease, renewals = log.lease() or NO_LEASE, log.renewals()
            now = clock.monotonic()
            if not lease.token:
                self._logger.info("topology %r takes over: its log has no driver", self.name)
                return lease
            if lease != told:
                told, self.holder = lease, log.holder()
                text = "topology %r waits as a standby for %g s of silence: the driver of epoch %d has its log (%s)"
                self._logger.info(text, self.name, self._limit, lease.epoch, self.holder or "no name given")
            silent = silent + min(now - before, 2 * LOOK_SECONDS) if (lease, renewals) == seen else 0.0
            before, seen = now, (lease, renewals)
            if silent >= self._limit:
                text = "topology %r takes over: the driver of epoch %d (%s) did not renew its lease for %g s"
                self._logger.info(text, self.name, lease.epoch, self.holder or "unknown", self._limit)
                return lease
            self._pause(min(LOOK_SECONDS, self._limit / 4, self._limit - silent))

    @property
    def _limit(self) -> float:
        """The seconds without a renewal to wait for: the greater `leaseSecs` of this driver and the other driver."""
        return max(self._settings.leaseSecs, self.holder.leaseSecs if self.holder is not None else 0.0)

    def _pause(self, seconds: float) -> None:
        with contextlib.suppress(Empty):
            self._asked.get(timeout=seconds)
        self.check()

    def check(self) -> None:
        """Raise StandbyStoppedError after a stop."""
        if self._stopped:
            raise StandbyStoppedError(
                f"topology {self.name!r} was stopped while it was a standby; it did not take over"
            )

    # --- the end -----------------------------------------------------------------------------------------------------

    def became(self, running: "RunningTopology") -> None:
        """Register the run that this standby became. If a stop was requested meanwhile, stop the run."""
        self._running = running
        if self._stopped:
            running.stop_soon()
        self._ended.set()

    def failed(self) -> None:
        """Record that the start ended without a run."""
        self._ended.set()

    def stop(self) -> None:
        """Stop waiting, and return when the start has ended. The start raises StandbyStoppedError.

        If the standby is just taking over, the run is stopped.
        """
        self.stop_soon()
        if not self._ended.wait(_STOP_SECONDS):
            text = "the start of topology %r does not end within %g s; it is abandoned"
            self._logger.warning(text, self.name, _STOP_SECONDS)
        if self._running is not None:
            self._running.stop()

    def stop_soon(self) -> None:
        """Request the end, and return at once."""
        self._stopped = True
        self._asked.put(None)
        if self._running is not None:
            self._running.stop_soon()

    def wait_ended(self, timeout: float | None) -> bool:
        """Wait until the start has ended, for `timeout` seconds at most. Return whether it has ended."""
        return self._ended.wait(timeout)

    def leave_to_parent(self) -> None:
        """Forget the standby in a forked child, because only the parent has the waiting thread."""
        self._ended.set()

    def __repr__(self) -> str:
        return f"<Standby {self.name!r}: {self.holder or 'no driver known'} holds the log>"


def standbys() -> list[Standby]:
    """Return the starts of this process that are waiting as standbys.

    >>> standbys()
    []
    """
    return [waiting for waiting in registry.running_here() if isinstance(waiting, Standby)]


def check_turn(settings: Settings) -> None:
    """Check that `standby` and `takeover` do not contradict each other.

    Raises TopologyError if they do.
    """
    if not settings.standby:
        if settings.takeover is False:
            raise TopologyError(
                "takeover=False has no effect without standby=True: a start takes over at once. With standby=True it "
                "waits until the log's driver has stopped, or is silent for leaseSecs"
            )
        return
    if settings.takeover:
        raise TopologyError(
            "standby=True and takeover=True contradict each other: a standby waits, a takeover does not; give one "
            "of them"
        )
    if not settings.lasting and settings.log is None:
        raise TopologyError(
            "standby=True needs a log that the drivers share: give checkpointLocation=, or log=RedisLog(...) for "
            "drivers "
            "on other machines"
        )
