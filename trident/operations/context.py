"""The context that an operation's `prepare` gets, and the test whether an operation has `prepare` or `cleanup`."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The partition in which a copy of an operation runs. The operation's `prepare` gets this object.

    Meaning: ``org.apache.storm.trident.operation.TridentOperationContext``.

    >>> OperationContext(partitionIndex=2, numPartitions=4)
    OperationContext(partitionIndex=2, numPartitions=4)
    """

    partitionIndex: int
    """The number of the partition whose tuples this copy sees, from 0."""
    numPartitions: int | None
    """The number of partitions; None if no `parallelismHint` sets it."""


def has_lifecycle(target: Any) -> bool:
    """Return whether an operation has a `prepare` or a `cleanup`."""
    return any(callable(getattr(target, name, None)) for name in ("prepare", "cleanup"))
