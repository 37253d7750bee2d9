"""Policies for tuples on which a user's function fails: fail the batch, skip the tuple, or keep it as a dead letter."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from trident.base.argument_checks import check_whole_number
from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.short_texts import brief
from trident.base.verb_call import Step
from trident.operations.functions import Operation


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Keep the tuples on which a step's function fails as dead letters; the batch continues without them.

    Parameters
    ----------
    attempts : int
        How many attempts of a batch fail, as they would without a policy, before the next attempt makes dead letters.
        So a temporary fault, such as a service that is down, makes none. With 0 the first attempt makes them.
    most : int
        How many dead letters one step may make in one batch. If there would be more, the batch fails, because so many
        failures are not the fault of single tuples.

    >>> DeadLetter(attempts=2)
    DeadLetter(attempts=2, most=10000)
    """

    attempts: int = 1
    most: int = 10_000

    def __post_init__(self) -> None:
        for name, least in (("attempts", 0), ("most", 1)):
            check_whole_number(f"DeadLetter: {name}", getattr(self, name), least)


OnError: TypeAlias = Literal["skip"] | DeadLetter
"""The policy of a step in a plan. A step without a policy (None) fails the batch."""

OnErrorLike: TypeAlias = Literal["fail", "skip", "deadLetter"] | DeadLetter
"""A policy as users pass it to a verb."""

_NAMES = ("fail", "skip", "deadLetter")


def read_policy(onError: object, operation: Operation, step: Step) -> OnError | None:
    """Return the policy for the argument `onError` of a step; None for "fail".

    Raises TopologyError if `onError` is not a policy, or if Spark itself runs the operation.
    """
    if isinstance(onError, DeadLetter):
        policy: OnError | None = onError
    elif isinstance(onError, str) and onError in _NAMES:
        policy = None if onError == "fail" else "skip" if onError == "skip" else DeadLetter()
    else:
        near = did_you_mean(onError, _NAMES) if isinstance(onError, str) else ""
        raise step.error(
            TopologyError,
            f"onError={brief(onError)}{near}: expected 'fail', 'skip', 'deadLetter' or DeadLetter(...)",
        )
    if policy is not None and operation.call.native:
        raise step.error(
            TopologyError,
            "onError needs a function that is called with one tuple at a time; a Spark operation fails for all tuples "
            "at once. Catch the error in the expression (try_cast, try_divide), or write it in Python",
        )
    return policy
