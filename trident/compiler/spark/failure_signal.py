"""The signal by which a failure on a worker reaches the driver at once, while other tasks of the job still run.

A task with a failing function ends normally, with the failure as a row, so that Spark does not retry it. The row
arrives with the job's result, after the slowest task. So the task also adds the failure to an accumulator, which Spark
brings to the driver when the task ends. The accumulator decides only how soon the driver knows of the failure, not
whether.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import SparkSession

from trident.compiler.spark.worker_messages import accumulator_for, send

OnFailure = Callable[[int, str], None]
"""A function that gets the number of a job and the text of its failure. Spark's scheduler waits for the thread that
calls the function."""


@dataclass(frozen=True, slots=True)
class FailureSignal:
    """The object by which the tasks of one job report a failure to the driver."""

    accumulator: bytes
    job: int = 0

    def of(self, job: int) -> "FailureSignal":
        """Return the signal for the job with this number."""
        return replace(self, job=job)

    def send(self, text: str) -> None:
        """Record a failure, which Spark sends to the driver when this task ends."""
        send(self.accumulator, (self.job, text))


def signal_of(session: SparkSession, on_failure: OnFailure) -> FailureSignal | None:
    """Return the signal for the jobs of a session; None in Connect mode, which has no accumulators."""
    accumulator = accumulator_for(session, lambda failure: on_failure(*failure))
    return None if accumulator is None else FailureSignal(accumulator)
