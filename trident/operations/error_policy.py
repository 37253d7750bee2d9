"""Policies for tuples on which a user's function fails: fail the batch, skip the tuple, or keep it as a dead letter."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pyspark.sql.types import StructType

from trident.base.checks import check_whole_number
from trident.base.errors import TopologyError
from trident.base.names import did_you_mean
from trident.base.step import Step
from trident.base.text import brief
from trident.base.types import parse_schema
from trident.operations.functions import Operation


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Keep the tuples on which a step's function fails as dead letters, and let the batch go on without them.

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
"""A policy as users give it to a verb."""

LETTER: StructType = parse_schema(
    "id string, stream string, step string, function string, error string, message string, tuple string, txid long, "
    "attempt int"
)
"""The fields of a dead letter.

`id` identifies the letter. `stream` and `step` say where the function failed. `function` names the function with its
file and line, `error` the class of the error; `message` is the error's text. `tuple` is the tuple that entered the
step, as a JSON object by field. `txid` and `attempt` say in which attempt the function failed.
"""

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
            f"onError={brief(onError)}{near}: 'fail', 'skip', 'deadLetter' and DeadLetter(...) are accepted",
        )
    if policy is not None and operation.call.native:
        raise step.error(
            TopologyError,
            "onError needs a function that is called with one tuple at a time; an operation that Spark runs itself "
            "fails as a whole. Catch the error in the expression (try_cast, try_divide), or write it in Python",
        )
    return policy


class KeepLetters:
    """A StateUpdater for `partitionPersist` that keeps dead letters in a state: the newest ones, at most `most`.

    The key is the letter's id, which grows with the txid.
    """

    keyFields = "id string"
    valueType = StructType([field for field in LETTER.fields if field.name != "id"])

    def __init__(self, most: int = 10_000) -> None:
        self.most = check_whole_number("most", most)

    def updateState(self, state: Any, tuples: Sequence[Any], collector: Any) -> None:
        """Store the batch's new letters; remove the letters that it puts back, and the oldest ones beyond `most`."""
        # A letter on its way back into the stream carries only its id: its other fields are null.
        step = LETTER.names.index("step")
        new = [tuple(letter) for letter in tuples if letter[step] is not None]
        state.multiPut([letter[0] for letter in new], [letter[1:] for letter in new])
        state.multiRemove([letter[0] for letter in tuples if letter[step] is None])
        ids = sorted(key for (key,) in state.getKeys())  # not getTuples: the values are many, and nobody looks at them
        if len(ids) > self.most:
            state.multiRemove(ids[: len(ids) - self.most])
