"""What an operation is told of the place where it runs."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class OperationContext:
    """Where a copy of an operation runs: what its `prepare` is given.

    Meaning: ``org.apache.storm.trident.operation.TridentOperationContext``.

    >>> OperationContext(partitionIndex=2, numPartitions=4)
    OperationContext(partitionIndex=2, numPartitions=4)
    """

    partitionIndex: int
    """The partition whose tuples this copy sees, from 0 on."""
    numPartitions: int | None
    """How many there are; None where no `parallelismHint` says it."""


def has_life(target: Any) -> bool:
    """Whether an operation wants to know where it begins and that it ends."""
    return any(callable(getattr(target, name, None)) for name in ("prepare", "cleanup"))
