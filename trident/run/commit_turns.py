"""The commit turns of one batch group, and the healing of its states, one after the other in the commit thread.

A turn may fail and be repeated, since a frozen batch stays frozen. This is where an error of a turn becomes an event:
one that may go away by itself, one that stops the group, or one that another driver caused.
"""

import logging
from collections.abc import Callable, Mapping

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, CallHangsError, FencedError, LogError, TridentError
from trident.compiler.results import Result
from trident.reads.commit_gate import CommitGate
from trident.recovery.takeover import explained
from trident.run import events as on
from trident.run.commit_errors import REPEATED, TRANSIENT
from trident.run.context import GroupContext
from trident.user_calls.watched_calls import SHOWN_AFTER_SECONDS

logger = logging.getLogger(__name__)


class CommitTurns:
    """Commits a group's frozen batches in txid order. `post` reaches the group's loop."""

    def __init__(self, context: GroupContext, post: Callable[[on.Event], None]) -> None:
        self._context = context
        self._post = post
        self._clock, self._trace, self._name = context.clock, context.trace, context.name
        self._committer, self._code = context.committer, context.committer.code
        self.committed = context.history.committed
        """Written by the commit thread, read by all. It only grows, so that who reads it late does too much work, and
        never wrong work."""
        self.gate = CommitGate(lambda: self.committed)
        """Where reads hold the next commit back; it has a lock of its own."""
        self.waiting_for: BaseException | None = None
        """The error that the last turn, or the watch, met. Nothing is decided by it: `status` shows it."""
        self.at_hand: dict[int, Mapping[str, Result]] = {}
        """The results of stage 1 by txid, of the very attempt that froze. The loop sets an entry at FROZEN, before it
        submits the turn that reads and removes it. A late attempt at the same batch cannot come in here."""
        self._under_way: tuple[int, float] | None = None
        """The batch of the turn that runs, and since when. One tuple, so that another thread reads both of one turn."""

    # --- in the commit thread ----------------------------------------------------------------------------------

    def commit(self, txid: int) -> None:
        """Commit a frozen batch; post Committed, CommitFailed or Broken."""
        began = self._clock.monotonic()
        self._under_way = txid, began
        try:
            # Before the first write, and after `committed` reached the batch before. A read takes its txid under the
            # gate's lock: either its hold is seen here, or it reads as of the batch before this one, which this turn
            # does not disturb (guard "reader, the gate").
            self.gate.wait(txid)
            # The entry stays until the batch is committed: a repeated turn needs it again, and would have to read the
            # log.
            summary = self._committer.commit(txid, self.at_hand.get(txid))
            # Only behind COMMITTED: readers take this for the txid that every state of the group holds.
            self.committed = txid
            self.waiting_for = None
            self._code.tries = 0
            self.at_hand.pop(txid, None)
            self._trace.phase(self._name, txid, "commit", self._clock.monotonic() - began)
            self._trace.committed(self._name, txid, summary)
            self._post(on.Committed(txid))
        except (FencedError, LogError) as error:
            # Not repeated as a failed commit is: another driver has the log, or the run cannot know
            # what the log holds.
            self._post(self._context.broken(error))
        except AttemptCancelledError as error:  # the run ends
            self._post(on.CommitFailed(txid, error, False))
        except BaseException as error:
            self._post(self._failed(txid, error))
        finally:
            self._under_way = None

    def heal(self, state: str) -> None:
        """Bring a rewound store up to date again.

        It runs in the commit thread, not in the watch's, because a commit turn and a heal of one store must not meet.
        """
        try:
            self._committer.heal(state, self.committed)
            self.waiting_for = None
            self._code.tries = 0
        except AttemptCancelledError:
            logger.debug("group %r: state %r is not healed: the run ends", self._name, state)
        except BaseException as error:
            self.waiting_for = error  # the watch asks again, as long as it finds the store behind
            if not self._transient(error):
                self._post(self._context.broken(error))

    def _failed(self, txid: int, error: BaseException) -> on.Event:
        """Return the event for a turn that failed, and say in the error that the batch is kept."""
        self.waiting_for = error
        attempt = TransactionAttempt(txid, self._code.tries, self._context.lease.epoch)
        self._trace.failed(self._name, attempt, "commit", error)
        transient = self._transient(error)
        # A CallHangsError says already that frozen batches are kept.
        if not transient and isinstance(error, REPEATED) and not isinstance(error, CallHangsError):
            error.args = (  # the same error, with its cause and its place
                f"{error}; batch {txid} is frozen and kept: mend what failed and start again, so that it is committed",
            )
        # Also for an error that may pass: a driver that was taken over would repeat its commit against the later
        # driver's states for `commitRetrySecs`, and then blame a state (simulator, seed 318329).
        cause = explained(error, self._context.log, self._context.lease)
        return on.Broken(cause) if isinstance(cause, FencedError) else on.CommitFailed(txid, error, transient)

    def _transient(self, error: BaseException) -> bool:
        """Return whether another try may help.

        It may where a store is away; and where user code or Spark failed, as often as an attempt may fail. Each try
        of the latter counts, and doubles the limit of the next one.
        """
        if isinstance(error, TRANSIENT):
            return True
        if isinstance(error, TridentError) and (error.hopeless or not isinstance(error, REPEATED)):
            return False
        self._code.tries += 1
        return self._code.tries < self._context.settings.maxAttempts

    # --- in any thread -----------------------------------------------------------------------------------------

    @property
    def slow_turn(self) -> str | None:
        """The turn that takes longer than usual, as `status` says it, with the states that are being written."""
        under_way = self._under_way  # read once: the commit thread sets it to None meanwhile
        seconds = 0.0 if under_way is None else self._clock.monotonic() - under_way[1]
        if under_way is None or seconds < SHOWN_AFTER_SECONDS:
            return None
        factories = {step.state.name: step.state.factory for step in self._context.group.states}
        writing = [f"state {name!r} ({factories[name]!r}) is being written" for name in sorted(self._committer.writing)]
        return f"the commit of batch {under_way[0]}, for {seconds:.1f} s{': ' if writing else ''}{', '.join(writing)}"
