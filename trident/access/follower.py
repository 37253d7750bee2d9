"""A thread that applies a driver's commits to copies of its memory states, batch by batch, while readers read them."""

import logging
import threading
import time
from collections.abc import Sequence

from trident.access.replica import MemoryReplica
from trident.base.errors import LogError, StateError, StateNotFollowedError, StateRecoveringError
from trident.base.forked_child import in_child
from trident.base.interruptible_waits import Flag
from trident.log.protocol import LogAbsentError
from trident.reads.commit_gate import CommitGate

logger = logging.getLogger(__name__)

_LOOK_SECONDS = 0.01
"""Seconds between two reads of the log while nothing new is committed."""

_CHECK_SECONDS = 1.0
"""Seconds between two checks that the log is still the followed log, while nothing new is committed."""

_PAUSE_SECONDS = 0.5
"""Seconds after which a failed read of the log is repeated."""


class GroupFollower:
    """Follows the commits of one batch group with all states in memory, until it is closed.

    It treats the copies as a driver treats its states: it applies each batch to all states of the group, then advances
    `committed`, and readers can hold it back (by a `CommitGate`). So readers always find the values as of their txid,
    even if the driver commits quickly.
    """

    def __init__(self, group: str, replicas: Sequence[MemoryReplica]) -> None:
        self._group, self._replicas = group, replicas
        self.committed = min(replica.committed() for replica in replicas)
        """The last txid that all copies hold."""
        self.gate = CommitGate(lambda: self.committed)
        self.error: BaseException | None = None
        """The reason why the last read of the log failed; None if it did not fail."""
        self._checked = time.monotonic()
        self._forked = False
        """Whether this is a forked child that has not started its thread yet."""
        self._ended = Flag()
        self._starting = threading.Lock()
        self._thread = self._started()
        in_child(self, GroupFollower._begin_again)

    def _started(self) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"trident-{self._group}-follow", daemon=True)
        thread.start()
        return thread

    def _begin_again(self) -> None:
        """Let the next `check` start a thread in a forked child, which does not have the parent's."""
        self.gate = CommitGate(lambda: self.committed)
        self._starting = threading.Lock()
        self._forked = not self._ended.is_set()

    def check(self) -> None:
        """Raise StateError if the states must not be read, because one of them was dropped, is lost or is not followed.

        If the log is only out of reach, they can be read as of the last known batch. A log that no longer exists is
        different: a reset removes it.
        """
        if self._forked:
            with self._starting:
                if self._forked:
                    self._thread, self._forked = self._started(), False
        error = self.error
        if isinstance(error, LogAbsentError):
            raise StateRecoveringError(
                f"group {self._group!r} is followed only up to txid {self.committed}: {error}. The topology was "
                "reset, or its checkpoint was moved: open the topology again, or restore the log"
            ) from error
        if isinstance(error, LogError):
            return
        if isinstance(error, StateError):
            raise error
        if error is not None or not (self._thread.is_alive() or self._ended.is_set()):
            why = f"{type(error).__name__}: {error}" if error is not None else "the thread that follows it has ended"
            raise StateNotFollowedError(
                f"group {self._group!r} cannot be followed after txid {self.committed}, so its values become stale: "
                f"{why}; open the topology again"
            ) from error

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            try:
                pause = 0.0 if self._follow() else _LOOK_SECONDS
                self.error = None
            except BaseException as error:  # any error: otherwise nothing would log it
                if type(error) is not type(self.error):
                    text = "group %r cannot be followed after txid %d: %s: %s"
                    logger.error(text, self._group, self.committed, type(error).__name__, error)
                self.error, pause = error, _PAUSE_SECONDS

    def _follow(self) -> bool:
        """Apply the next batch, if there is one, to all copies, as soon as no reader needs the older values."""
        txid = self.committed + 1
        if txid > min(replica.reachable() for replica in self._replicas):
            if time.monotonic() - self._checked >= _CHECK_SECONDS:  # `follow` makes the same check for each batch
                self._checked = time.monotonic()
                for replica in self._replicas:
                    replica.check()
            return False
        while not self.gate.wait(txid, _LOOK_SECONDS):
            if self._ended.is_set():
                return False
        # A copy may have a later batch: its driver replaced its snapshot, and the log no longer keeps the batches
        # before that.
        self.committed = min(replica.follow(txid) for replica in self._replicas)
        return True
