"""Messages from Spark's tasks to the driver, outside of their rows.

A task adds a message to an accumulator, which Spark brings to the driver when the task succeeds, before the job ends.
Spark may compute a partition several times, and then brings several messages: the receiver must expect them.
"""

import pickle
from collections.abc import Callable
from typing import Any

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import SparkSession

from trident.compiler.spark.sessions import is_connect

Hear = Callable[[Any], None]
"""A function that gets one message. Spark's scheduler waits for the thread that calls the function."""

_Messages = tuple[Any, ...]


class _MessageParam(AccumulatorParam[_Messages]):
    """An accumulator of messages. On a worker it collects them; on the driver it calls `hear` with each."""

    def __init__(self, hear: Hear | None = None) -> None:
        self._hear = hear

    def __reduce__(self) -> tuple[type["_MessageParam"], tuple[()]]:
        return _MessageParam, ()

    def zero(self, value: _Messages) -> _Messages:
        return ()

    def addInPlace(self, value1: _Messages, value2: _Messages) -> _Messages:
        if self._hear is None:
            return (*value1, *value2)
        for message in value2:
            self._hear(message)
        return ()


def accumulator_for(session: SparkSession, hear: Hear) -> bytes | None:
    """Return an accumulator whose messages reach `hear`; None in Connect mode, which has no accumulators.

    The accumulator is pickled to bytes, and unpickled only for a message: a task would send an unpickled accumulator
    back to the driver even if it added nothing.
    """
    if is_connect(session):
        return None
    return pickle.dumps(session.sparkContext.accumulator((), _MessageParam(hear)))


def send(accumulator: bytes, message: Any) -> None:
    """Add a message to an accumulator of `accumulator_for`. Spark sends it to the driver when this task ends."""
    pickle.loads(accumulator).add((message,))  # noqa: S301  # made by `accumulator_for`
