"""The events that the coordinator receives, and the actions that it returns. Plain data without behaviour."""

import msgspec

from trident.base.attempt import TransactionAttempt
from trident.log.group_records import BatchPlan, Positions

# --- events ----------------------------------------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True):
    """Something that happened."""


class Planned(Event, frozen=True):
    """The spouts have planned the batch."""

    attempt: TransactionAttempt
    plan: BatchPlan


class NothingThere(Event, frozen=True):
    """No spout of the group has anything for this txid.

    `waits_for`: the reason why a source that is not empty gave nothing yet; None if all sources are empty. `due`: the
    seconds until a state needs a batch without tuples; None if no state will.
    """

    attempt: TransactionAttempt
    waits_for: str | None = None
    due: float | None = None


class PlanFailed(Event, frozen=True):
    """A spout failed to plan the batch."""

    attempt: TransactionAttempt
    error: BaseException


class Ran(Event, frozen=True):
    """Stage 1 of the attempt has run, and its result is held."""

    attempt: TransactionAttempt


class RunFailed(Event, frozen=True):
    """The attempt failed, or overran its limit. In the second case it may still be working."""

    attempt: TransactionAttempt
    error: BaseException


class Frozen(Event, frozen=True):
    """The attempt's results are durable. `positions` are those of the spouts after the batch."""

    attempt: TransactionAttempt
    positions: Positions


class Committed(Event, frozen=True):
    """Every state of the group holds the batch, and the log has recorded that."""

    txid: int


class CommitFailed(Event, frozen=True):
    """The commit of a frozen batch failed. `transient`: a retry may help."""

    txid: int
    error: BaseException
    transient: bool


class Succeeded(Event, frozen=True):
    """The spouts got `success` for the committed batch."""

    txid: int


class Woken(Event, frozen=True):
    """A sleep has ended, or the sources may have something to plan."""


class RowsCame(Event, frozen=True):
    """A source has reported new rows."""


class DrainAsked(Event, frozen=True):
    """Stop as soon as the sources have nothing more."""


class DeactivateAsked(Event, frozen=True):
    """Plan no new batch until ActivateAsked. Batches in flight are finished, and replayed if they fail."""


class ActivateAsked(Event, frozen=True):
    """Plan new batches again."""


class StopAsked(Event, frozen=True):
    """Stop now: begin nothing new, cancel running attempts, finish a running commit."""


class GivenUp(Event, frozen=True):
    """A stop has waited long enough for running work."""


class Broken(Event, frozen=True):
    """The run cannot continue (fenced, the log failed). Nothing more is written."""

    error: BaseException


# --- actions
# -----------------------------------------------------------------------------------------------------------


class Action(msgspec.Struct, frozen=True):
    """An action that the coordinator asks the loop to perform."""


class Plan(Action, frozen=True):
    """Let the spouts plan the batch. Answer: Planned, NothingThere or PlanFailed.

    `previous`: the positions of the spouts before the batch. `kept`: the plan of an earlier attempt. Spouts that replay
    exactly keep their part of it.
    """

    attempt: TransactionAttempt
    previous: Positions
    kept: BatchPlan | None = None
    delay: float = 0.0


class Run(Action, frozen=True):
    """Emit the batch and compute stage 1. `previous` are the spouts' positions before it. Answer: Ran or RunFailed."""

    attempt: TransactionAttempt
    plan: BatchPlan
    previous: Positions
    delay: float = 0.0


class Cancel(Action, frozen=True):
    """Stop an attempt's work if it runs, and drop its result. Later messages about the attempt change nothing."""

    attempt: TransactionAttempt


class Freeze(Action, frozen=True):
    """Make the attempt's result durable. Answer: Frozen or Broken."""

    attempt: TransactionAttempt


class Commit(Action, frozen=True):
    """Apply the frozen batch to every state, in stage order, and log COMMITTED. Answer: Committed or CommitFailed."""

    txid: int
    delay: float = 0.0


class Succeed(Action, frozen=True):
    """Tell the spouts that everything up to this txid is committed. Answer: Succeeded."""

    txid: int


class Fail(Action, frozen=True):
    """Tell the spouts that the attempt failed, with the reason. No answer."""

    attempt: TransactionAttempt
    error: BaseException


class Sleep(Action, frozen=True):
    """Post Woken after this many seconds, or earlier if the sources may have something to plan."""

    seconds: float


class Rest(Action, frozen=True):
    """Note that all sources are empty and nothing is in flight."""


class Switch(Action, frozen=True):
    """Tell the spouts whether the group takes rows from now on. No answer."""

    active: bool


class Quiet(Action, frozen=True):
    """Note that the group is inactive and nothing is in flight: nothing happens until it is activated."""


class Finish(Action, frozen=True):
    """End the group. `error`: why it ends; None if it stopped on request."""

    error: BaseException | None = None
