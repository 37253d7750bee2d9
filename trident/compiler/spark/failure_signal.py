"""A failure on a worker that reaches the driver at once, while the other tasks of its job still run.

A task whose function fails ends well, with the failure as a row, so that Spark does not try it again. The row arrives
with the job's result: after the slowest task. So the task also adds the failure to an accumulator, which Spark brings
to the driver when the task ends. The accumulator decides only how soon the driver knows, never whether.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from trident.compiler.spark.sessions import is_connect

Heard = Callable[[int, str], None]
"""Is called with the number of a job and the text of its failure, by a thread that Spark's scheduler waits for."""

_Rings = tuple[tuple[int, str], ...]


class _Ringing(AccumulatorParam[_Rings]):
    """Collects on a worker; on the driver hands on what comes, and keeps nothing."""

    def __init__(self, heard: Heard | None = None) -> None:
        self._heard = heard

    def __reduce__(self) -> tuple[type["_Ringing"], tuple[()]]:
        return _Ringing, ()

    def zero(self, value: _Rings) -> _Rings:
        return ()

    def addInPlace(self, value1: _Rings, value2: _Rings) -> _Rings:
        if self._heard is None:
            return (*value1, *value2)
        for number, text in value2:
            self._heard(number, text)
        return ()


@dataclass(frozen=True, slots=True)
class Bell:
    """What the tasks of one job ring. It travels as bytes, because Spark would send an accumulator that a task has
    unpickled back to the driver from every task, whether it was added to or not."""

    accumulator: bytes
    job: int = 0

    def of(self, job: int) -> "Bell":
        """The same for another job."""
        return replace(self, job=job)

    def ring(self, text: str) -> None:
        """Tell the driver of a failure when this task ends."""
        pickle.loads(self.accumulator).add(((self.job, text),))  # noqa: S301  # made by `bell_of`


def bell_of(session: SparkSession, heard: Heard) -> Bell | None:
    """A bell for the jobs of a session; None in Connect mode, which has no accumulators."""
    if is_connect(session):
        return None
    return Bell(pickle.dumps(session.sparkContext.accumulator((), _Ringing(heard))))
