"""What the coordinator hears and what it asks for. Plain data, no behaviour."""

from dataclasses import dataclass

from trident.base.attempt import TransactionAttempt
from trident_spouts.executor import Metadata

BatchPlan = dict[str, Metadata]
"""What names a batch: each spout's metadata by its stream's name, None for a spout that has nothing in this batch."""

Positions = dict[str, Metadata]
"""Where each spout stands after a batch: what its next plan starts from."""


# --- events: what happened ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Planned:
    """The batch is named, and the log holds it."""

    attempt: TransactionAttempt
    plan: BatchPlan


@dataclass(frozen=True, slots=True)
class NothingThere:
    """No spout of the group has anything for this txid."""

    attempt: TransactionAttempt


@dataclass(frozen=True, slots=True)
class PlanFailed:
    attempt: TransactionAttempt
    error: BaseException


@dataclass(frozen=True, slots=True)
class Ran:
    """Stage 1 of the attempt is computed; the runtime holds its result."""

    attempt: TransactionAttempt


@dataclass(frozen=True, slots=True)
class RunFailed:
    attempt: TransactionAttempt
    error: BaseException


@dataclass(frozen=True, slots=True)
class Frozen:
    """The attempt's result is durable. `positions` are where the spouts stand after it."""

    attempt: TransactionAttempt
    positions: Positions


@dataclass(frozen=True, slots=True)
class Committed:
    """Every state of the group holds the batch, and the log says so."""

    txid: int


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The commit of a frozen batch did not go through. `passing`: trying again may help."""

    txid: int
    error: BaseException
    passing: bool


@dataclass(frozen=True, slots=True)
class Succeeded:
    """The spouts have heard that the batch is committed."""

    txid: int


@dataclass(frozen=True, slots=True)
class Woken:
    """A wait is over, or somebody knows that there is something to plan."""


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """Stop as soon as the sources have nothing more."""


@dataclass(frozen=True, slots=True)
class StopAsked:
    """Stop now: nothing new, running attempts are cancelled, a commit under way is finished."""


@dataclass(frozen=True, slots=True)
class Broken:
    """The run cannot go on (fenced, the log failed). Nothing more is written."""

    error: BaseException


Event = (
    Planned
    | NothingThere
    | PlanFailed
    | Ran
    | RunFailed
    | Frozen
    | Committed
    | CommitFailed
    | Succeeded
    | Woken
    | DrainAsked
    | StopAsked
    | Broken
)


# --- actions: what is to be done ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """Name the batch and log the name. `kept`: the plan of an earlier attempt, of which the spouts that replay
    exactly keep their part. Answer: Planned, NothingThere or PlanFailed."""

    attempt: TransactionAttempt
    previous: Positions
    kept: BatchPlan | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Run:
    """Emit and compute stage 1. `previous` is where the spouts stood before. Answer: Ran or RunFailed."""

    attempt: TransactionAttempt
    plan: BatchPlan
    previous: Positions
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Cancel:
    """Stop an attempt's work if it runs, and drop its result. No answer is heard any more."""

    attempt: TransactionAttempt


@dataclass(frozen=True, slots=True)
class Freeze:
    """Make the attempt's result durable. Answer: Frozen or Broken."""

    attempt: TransactionAttempt


@dataclass(frozen=True, slots=True)
class Commit:
    """Apply the frozen batch to every state, in stage order, and log COMMITTED. Answer: Committed or CommitFailed."""

    txid: int
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class Succeed:
    """Tell the spouts that everything up to this txid is committed. Answer: Succeeded."""

    txid: int


@dataclass(frozen=True, slots=True)
class Fail:
    """Tell the spouts that the attempt came to nothing. No answer."""

    attempt: TransactionAttempt


@dataclass(frozen=True, slots=True)
class Sleep:
    """Send Woken after so many seconds, or earlier if something is known to be there."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Rest:
    """The sources have nothing and nothing is in flight."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The group is over; with an error if it did not stop on request."""

    error: BaseException | None = None


Action = Plan | Run | Cancel | Freeze | Commit | Succeed | Fail | Sleep | Rest | Finish
