"""Short words for what tests do with the executor of a KafkaSpout."""

from typing import Any

import pyarrow as pa

from trident.spouts import Emission, KafkaSpout, TransactionAttempt
from trident_spouts.executor import Metadata, SpoutExecutor


def planned(executor: SpoutExecutor, previous: Metadata = None, txid: int = 1) -> Any:
    """Return the metadata of the batch after `previous`."""
    return executor.plan(TransactionAttempt(txid, 0, 1), previous, 0.0)


def emitted(executor: SpoutExecutor, metadata: Metadata, attempt: int = 0) -> Emission:
    """Return what an attempt at a batch emits."""
    return executor.emit(TransactionAttempt(1, attempt, 1), metadata)


def values(table: pa.Table) -> list[str]:
    """Return the values of messages as text, in order of topic, partition and offset."""
    order = [("topic", "ascending"), ("partition", "ascending"), ("offset", "ascending")]
    return [value.decode() for value in table.sort_by(order).column("value").to_pylist()]


def drained(executor: SpoutExecutor, position: Metadata = None) -> tuple[list[str], Any]:
    """Read batch by batch until nothing is left; return the values, and the position after them."""
    read: list[str] = []
    while (plan := planned(executor, position)) is not None:
        read += values(emitted(executor, plan).arrow())
        position = plan
    return read, position


def read(servers: str, topics: Any, **options: Any) -> list[str]:
    """Return all values that a new stream reads."""
    executor = KafkaSpout(servers, topics, **options).open()
    try:
        return drained(executor)[0]
    finally:
        executor.close()
