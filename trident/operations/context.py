"""The context passed to an operation's `prepare`, and the check whether an operation has `prepare` or `cleanup`."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trident.base.run_facts import RunFacts
from trident.base.user_config import UserConfig


@dataclass(frozen=True, slots=True)
class OperationContext:
    """The partition, step and configuration of a copy of an operation, passed to its `prepare`.

    Meaning: ``org.apache.storm.trident.operation.TridentOperationContext``, and the ``Map`` of the configuration beside
    it.

    >>> context = OperationContext(partitionIndex=2, numPartitions=4, config={"region": "eu"})
    >>> context.partitionIndex, context.config["region"]
    (2, 'eu')
    """

    partitionIndex: int
    """The index of the partition that this copy processes, from 0."""
    numPartitions: int | None
    """The number of partitions; None if no `parallelismHint` sets it."""
    topology: str = ""
    """The name of the topology; "" in a preview (`take`, `show`)."""
    stream: str = ""
    """The stream to which the step belongs; "words()" for the DRPC function "words"."""
    step: str = ""
    """The step, as errors and `explain` name it: "words/2:each(split)"."""
    txid: int | None = None
    """The txid of the batch; None for the requests of a DRPC function."""
    config: Mapping[str, Any] = field(default_factory=UserConfig)
    """The user configuration: ``[user]`` in ``trident.toml``, ``TRIDENT_USER_...``, and ``start(user=...)``."""

    @classmethod
    def of(cls, facts: RunFacts, partition: int, count: int | None, txid: int | None) -> "OperationContext":
        """Return the context of the operations of one partition in a batch, without a step."""
        return cls(partition, count, facts.topology, txid=txid, config=facts.config)

    def at(self, step: str) -> "OperationContext":
        """Return this context for the operation of one step."""
        return replace(self, step=step, stream=step.partition("/")[0])


def has_lifecycle(target: Any) -> bool:
    """Return whether an operation has a `prepare` or a `cleanup`."""
    return any(callable(getattr(target, name, None)) for name in ("prepare", "cleanup"))
