"""Short words for what tests do with the executor of a JdbcSpout."""

import json
from typing import Any

import pyarrow as pa

from tests.support.waiting import wait_until
from trident.spouts import Budget, TransactionAttempt
from trident_spouts.executor import Emission, Metadata, SpoutExecutor


def planned(executor: SpoutExecutor, previous: Metadata = None, time: float = 0.0, rows: int | None = None) -> Any:
    """Return the metadata of the batch after `previous`, as the log gives it back."""
    plan = executor.plan(TransactionAttempt(1, 0, 1), previous, time, Budget(rows=rows))
    return json.loads(json.dumps(plan))


def planned_soon(executor: SpoutExecutor) -> Any:
    """Return the metadata of the first batch as soon as its rows are final: the server's vacuum may hold them back."""
    found: list[Any] = []
    wait_until(lambda: found.append(planned(executor)) or found[-1] is not None)  # type: ignore[func-returns-value]
    return found[-1]


def emitted(executor: SpoutExecutor, metadata: Metadata, attempt: int = 0) -> Emission:
    """Return what an attempt at a batch emits."""
    return executor.emit(TransactionAttempt(1, attempt, 1), metadata)


def drained(executor: SpoutExecutor, position: Metadata = None, time: float = 0.0) -> tuple[list[Any], Any]:
    """Read batch by batch until nothing is left; return the first field of all rows, and the position after them."""
    read: list[Any] = []
    while (plan := planned(executor, position, time)) is not None:
        read += column(emitted(executor, plan).arrow())
        position = plan
    return sorted(read), position


def column(table: pa.Table, at: int = 0) -> list[Any]:
    """Return the values of a column."""
    return list(table.column(at).to_pylist())
