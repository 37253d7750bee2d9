"""The commit turns of one batch group, and the healing of its states.

They run one after the other in the commit thread.

A turn may fail and be repeated, because a frozen batch stays frozen. This module turns the error of a turn into an
event: CommitFailed, which says whether a retry may help, or Broken if the log failed or another driver took it.
"""

from collections.abc import Callable, Mapping

from trident.base.attempt import TransactionAttempt
from trident.base.errors import AttemptCancelledError, FencedError, LogError, TridentError
from trident.batches import coordinator_events as on
from trident.batches.retries import retries_of
from trident.batches.run_context import GroupContext
from trident.commits.commit_errors import REPEATED, TRANSIENT
from trident.frozen.results import Result
from trident.reads.commit_gate import CommitGate
from trident.reads.commit_times import CommitTimes
from trident.recovery.takeover import explained
from trident.user_calls.watched_calls import SHOWN_AFTER_SECONDS


class CommitTurns:
    """Commits a group's frozen batches in txid order. `post` sends an event to the group's loop."""

    def __init__(self, context: GroupContext, post: Callable[[on.Event], None]) -> None:
        self._context = context
        self._post = post
        self._clock, self._trace, self._name = context.clock, context.trace, context.name
        self._logger = context.logger(__name__)
        self._committer, self._code = context.committer, context.committer.code
        self.committed = context.history.committed
        """The last committed txid. The commit thread writes it, all threads read it. It only grows: a thread that reads
        an old value does some work in vain, never wrong work."""
        self.times = CommitTimes(lambda txid: self._context.log.commit_time(self._name, txid))
        """The times of the commits. The object has a lock."""
        self.gate = CommitGate(lambda: self.committed)
        """Lets reads delay the next commit. The object has a lock."""
        self.waiting_for: BaseException | None = None
        """The error of the last commit turn or heal, or of the watch for rewound stores. Only `status` reads it."""
        self.at_hand: dict[int, Mapping[str, Result]] = {}
        """The results of stage 1 by txid, from the attempt that was frozen. The loop sets an entry at FROZEN, before
        it submits the turn that reads and removes it. So results of a late attempt at the same batch never get in
        here."""
        self._under_way: tuple[int, float] | None = None
        """The txid of the running turn, and when the turn began. It is one tuple, so that another thread reads both of
        the same turn."""

    # --- in the commit thread ----------------------------------------------------------------------------------

    def commit(self, txid: int) -> None:
        """Commit a frozen batch; post Committed, CommitFailed or Broken."""
        began = self._clock.monotonic()
        self._under_way = txid, began
        try:
            # Before the first write, and after `committed` has reached the batch before. A read takes its txid under
            # the gate's lock: either this turn sees the read's hold, or the read is as of the batch before, which this
            # turn does not disturb (guard "reader, the gate").
            self.gate.wait(txid)
            # The entry stays until the batch is committed: without it, a repeated turn would have to read the log.
            summary = self._committer.commit(txid, self.at_hand.get(txid))
            # Only after COMMITTED: readers take this for the txid that every state of the group holds.
            self.times.note(txid, summary.time)
            self.committed = txid
            self.waiting_for = None
            self._code.settle()
            self.at_hand.pop(txid, None)
            self._trace.phase(self._name, txid, "commit", self._clock.monotonic() - began)
            self._context.sources.sizes.committed(txid, self._clock.monotonic())
            self._trace.committed(self._name, txid, summary)
            self._post(on.Committed(txid))
        except (FencedError, LogError) as error:
            # Not repeated, unlike other failed commits: another driver has the log, or the run cannot know what the log
            # holds.
            self._post(self._context.broken(error))
        except AttemptCancelledError as error:  # the run ends
            self._post(on.CommitFailed(txid, error, False))
        except BaseException as error:
            self._post(self._failed(txid, error))
        finally:
            self._under_way = None

    def heal(self, state: str) -> None:
        """Heal a rewound store up to the last committed batch.

        This runs in the commit thread, not in that of the watch, because a commit turn and a heal of one store must not
        run at the same time.
        """
        try:
            self._committer.heal(state, self.committed)
            self.waiting_for = None
            self._code.settle()
        except AttemptCancelledError:
            self._logger.debug("group %r: state %r could not be healed: the run ends", self._name, state)
        except BaseException as error:
            self.waiting_for = error  # the watch requests another heal as long as the store lacks batches
            if not self._transient(error):
                self._post(self._context.broken(error))

    def _failed(self, txid: int, error: BaseException) -> on.Event:
        """Return the event for a turn that failed. Its error names the frozen batch if the log outlives the run."""
        self.waiting_for = error
        attempt = TransactionAttempt(txid, self._code.tries, self._context.lease.epoch)
        self._trace.failed(self._name, attempt, "commit", error)
        transient = self._transient(error)
        kept = self._context.settings.lasting or self._context.settings.log is not None
        if not transient and kept and isinstance(error, REPEATED):
            error.args = (  # the same error object, to keep its cause and traceback
                f"{error}; batch {txid} is frozen and kept: correct the cause and start again, and it is committed",
            )
        # `explained` is called for a transient error, too. Otherwise a driver whose log was taken over would repeat its
        # commit against the later driver's states for `commitRetrySecs`, and then blame a state (simulator, seed
        # 318329).
        cause = explained(error, self._context.log, self._context.lease)
        return on.Broken(cause) if isinstance(cause, FencedError) else on.CommitFailed(txid, error, transient)

    def _transient(self, error: BaseException) -> bool:
        """Return whether a retry may help. If retries are limited, count this one.

        A retry may help if a store does not answer. It may also help if user code or Spark failed, or after an error
        that is not a TridentError; then there are at most `maxAttempts` tries. Each of these is counted, and doubles
        the time limit of the next one.
        """
        if isinstance(error, TRANSIENT):
            return True
        if isinstance(error, TridentError) and (error.hopeless or not isinstance(error, REPEATED)):
            return False
        waited = self._code.count_try(self._clock.monotonic())
        return not retries_of(self._context.settings).are_over(self._code.tries, waited, error)

    # --- in any thread -----------------------------------------------------------------------------------------

    @property
    def slow_turn(self) -> str | None:
        """The running turn and the states that it is writing, in the words of `status`; None if no turn is slow."""
        under_way = self._under_way  # read once: the commit thread sets it to None meanwhile
        seconds = 0.0 if under_way is None else self._clock.monotonic() - under_way[1]
        if under_way is None or seconds < SHOWN_AFTER_SECONDS:
            return None
        factories = {step.state.name: step.state.factory for step in self._context.group.states}
        writing = [f"state {name!r} ({factories[name]!r}) is being written" for name in sorted(self._committer.writing)]
        return f"the commit of batch {under_way[0]}, for {seconds:.1f} s{': ' if writing else ''}{', '.join(writing)}"
