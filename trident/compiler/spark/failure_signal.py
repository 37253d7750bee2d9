"""The signal by which a failure on a worker reaches the driver at once, while other tasks of the job still run.

A task with a failing function ends normally, with the failure as a row, so that Spark does not retry it. The row
arrives with the job's result, after the slowest task. So the task also adds the failure to an accumulator, which Spark
brings to the driver when the task ends. The accumulator decides only how soon the driver knows of the failure, not
whether.
"""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from trident.compiler.spark.sessions import is_connect

OnFailure = Callable[[int, str], None]
"""A function that gets the number of a job and the text of its failure. Spark's scheduler waits for the thread that
calls the function."""

_Failures = tuple[tuple[int, str], ...]


class _FailureParam(AccumulatorParam[_Failures]):
    """An accumulator of failures. On a worker it collects them; on the driver it calls `on_failure` with each."""

    def __init__(self, on_failure: OnFailure | None = None) -> None:
        self._on_failure = on_failure

    def __reduce__(self) -> tuple[type["_FailureParam"], tuple[()]]:
        return _FailureParam, ()

    def zero(self, value: _Failures) -> _Failures:
        return ()

    def addInPlace(self, value1: _Failures, value2: _Failures) -> _Failures:
        if self._on_failure is None:
            return (*value1, *value2)
        for number, text in value2:
            self._on_failure(number, text)
        return ()


@dataclass(frozen=True, slots=True)
class FailureSignal:
    """The object by which the tasks of one job report a failure to the driver.

    The accumulator is pickled to bytes, and unpickled only on a failure: a task would send an unpickled accumulator
    back to the driver even if it added nothing.
    """

    accumulator: bytes
    job: int = 0

    def of(self, job: int) -> "FailureSignal":
        """Return the signal for the job with this number."""
        return replace(self, job=job)

    def send(self, text: str) -> None:
        """Record a failure, which Spark sends to the driver when this task ends."""
        pickle.loads(self.accumulator).add(((self.job, text),))  # noqa: S301  # made by `signal_of`


def signal_of(session: SparkSession, on_failure: OnFailure) -> FailureSignal | None:
    """Return the signal for the jobs of a session; None in Connect mode, which has no accumulators."""
    if is_connect(session):
        return None
    return FailureSignal(pickle.dumps(session.sparkContext.accumulator((), _FailureParam(on_failure))))
