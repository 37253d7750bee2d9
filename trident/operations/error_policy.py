"""What becomes of a tuple on which a user's function fails: the batch fails, the tuple is left out, or it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from pyspark.sql.types import StructType

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
        So many attempts of the batch fail first, as they do without a policy: what passes by itself (a service that is
        away) kills no tuple. 0: none does.
    most : int
        More dead letters of one step in one batch than this fail it: that is no tuple's fault.

    >>> DeadLetter(attempts=2)
    DeadLetter(attempts=2, most=10000)
    """

    attempts: int = 1
    most: int = 10_000

    def __post_init__(self) -> None:
        for name, least in (("attempts", 0), ("most", 1)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise TopologyError(f"DeadLetter({name}={value!r}): a whole number of at least {least} is accepted")


OnError: TypeAlias = Literal["skip"] | DeadLetter
"""A policy as a plan holds it; None: the batch fails."""

OnErrorLike: TypeAlias = Literal["fail", "skip", "deadLetter"] | DeadLetter
"""A policy as verbs take it."""

LETTER: StructType = parse_schema(
    "id string, stream string, step string, function string, error string, message string, tuple string, txid long, "
    "attempt int"
)
"""What a dead letter tells: its identity; where it happened (`function` with its file and line); what was raised; the
tuple that entered the step, as JSON by field; and in which attempt."""

_NAMES = ("fail", "skip", "deadLetter")


def read_policy(given: object, operation: Operation, step: Step) -> OnError | None:
    """The policy of a step with this operation, from what `onError` was given."""
    if isinstance(given, DeadLetter):
        policy: OnError | None = given
    elif isinstance(given, str) and given in _NAMES:
        policy = None if given == "fail" else "skip" if given == "skip" else DeadLetter()
    else:
        near = did_you_mean(given, _NAMES) if isinstance(given, str) else ""
        raise step.error(
            TopologyError,
            f"onError={brief(given)}{near}: 'fail', 'skip', 'deadLetter' and DeadLetter(...) are accepted",
        )
    if policy is not None and operation.call.native:
        raise step.error(
            TopologyError,
            "onError needs a function that is called with one tuple after the other; what Spark runs itself fails as a "
            "whole. Catch it in the expression (try_cast, try_divide), or write it in Python",
        )
    return policy


class KeepLetters:
    """Keeps dead letters in a state, the newest `most` of them; a StateUpdater for `partitionPersist`.

    The key is the letter's id, which grows with the txid.
    """

    keyFields = "id string"
    valueType = StructType([field for field in LETTER.fields if field.name != "id"])

    def __init__(self, most: int = 10_000) -> None:
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise TopologyError(f"most={most!r}: a whole number of at least 1 is accepted")
        self.most = most

    def updateState(self, state: Any, tuples: Sequence[Any], collector: Any) -> None:
        """Take the batch's letters in, those out that it puts back into the stream, and let the oldest go that are too
        many."""
        new = [tuple(each) for each in tuples if each[LETTER.names.index("step")] is not None]
        state.multiPut([each[0] for each in new], [each[1:] for each in new])
        back = [each[0] for each in tuples if each[LETTER.names.index("step")] is None]
        state.multiRemove(back)
        ids = sorted(row[0] for row in state.getTuples())
        if len(ids) > self.most:
            state.multiRemove(ids[: len(ids) - self.most])
