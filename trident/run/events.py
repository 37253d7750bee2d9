"""What the coordinator hears and what it asks for. Plain data, no behaviour."""

import msgspec

from trident.base.attempt import TransactionAttempt
from trident.log.history import BatchPlan, Positions

# --- events: what happened ---------------------------------------------------------------------------------------


class Event(msgspec.Struct, frozen=True):
    """Something that happened."""


class Planned(Event, frozen=True):
    """The batch is named."""

    attempt: TransactionAttempt
    plan: BatchPlan


class NothingThere(Event, frozen=True):
    """No spout of the group has anything for this txid."""

    attempt: TransactionAttempt


class PlanFailed(Event, frozen=True):
    attempt: TransactionAttempt
    error: BaseException


class Ran(Event, frozen=True):
    """Stage 1 of the attempt is computed; the runtime holds its result."""

    attempt: TransactionAttempt


class RunFailed(Event, frozen=True):
    attempt: TransactionAttempt
    error: BaseException


class Frozen(Event, frozen=True):
    """The attempt's result is durable. `positions` are where the spouts stand after it."""

    attempt: TransactionAttempt
    positions: Positions


class Committed(Event, frozen=True):
    """Every state of the group holds the batch, and the log says so."""

    txid: int


class CommitFailed(Event, frozen=True):
    """The commit of a frozen batch did not go through. `transient`: trying again may help."""

    txid: int
    error: BaseException
    transient: bool


class Succeeded(Event, frozen=True):
    """The spouts have heard that the batch is committed."""

    txid: int


class Woken(Event, frozen=True):
    """A wait is over, or somebody knows that there is something to plan."""


class DrainAsked(Event, frozen=True):
    """Stop as soon as the sources have nothing more."""


class StopAsked(Event, frozen=True):
    """Stop now: nothing new, running attempts are cancelled, a commit under way is finished."""


class GivenUp(Event, frozen=True):
    """A stop that was asked for has waited long enough for what is under way."""


class Broken(Event, frozen=True):
    """The run cannot go on (fenced, the log failed). Nothing more is written."""

    error: BaseException


# --- actions: what is to be done ---------------------------------------------------------------------------------


class Action(msgspec.Struct, frozen=True):
    """Something that is to be done."""


class Plan(Action, frozen=True):
    """Name the batch. `kept`: the plan of an earlier attempt, of which the spouts that replay
    exactly keep their part. Answer: Planned, NothingThere or PlanFailed."""

    attempt: TransactionAttempt
    previous: Positions
    kept: BatchPlan | None = None
    delay: float = 0.0


class Run(Action, frozen=True):
    """Emit and compute stage 1. `previous` is where the spouts stood before. Answer: Ran or RunFailed."""

    attempt: TransactionAttempt
    plan: BatchPlan
    previous: Positions
    delay: float = 0.0


class Cancel(Action, frozen=True):
    """Stop an attempt's work if it runs, and drop its result. No answer is heard any more."""

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
    """Tell the spouts that the attempt came to nothing. No answer."""

    attempt: TransactionAttempt


class Sleep(Action, frozen=True):
    """Send Woken after so many seconds, or earlier if something is known to be there."""

    seconds: float


class Rest(Action, frozen=True):
    """The sources have nothing and nothing is in flight."""


class Finish(Action, frozen=True):
    """The group is over; with an error if it did not stop on request."""

    error: BaseException | None = None
