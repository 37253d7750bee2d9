"""Driving a spout as the runtime does, without one."""

import json
from typing import Any

from trident.base.attempt import TransactionAttempt
from trident_spouts.adapters.adapt import as_spout
from trident_spouts.executor import Metadata, SpoutExecutor


def logged(metadata: Metadata) -> Metadata:
    """Metadata as the log gives it back."""
    return json.loads(json.dumps(metadata))  # type: ignore[no-any-return]


def planned(
    spout: Any, limit: int = 100, executor: SpoutExecutor | None = None, previous: Metadata = None
) -> list[Any]:
    """The metadata of the batches that the spout plans, one after the other, until it is idle."""
    executor = executor or as_spout(spout).open()
    found: list[Any] = []
    while len(found) < limit:
        metadata = executor.plan(TransactionAttempt(len(found) + 1, 0), previous, 0.0)
        if metadata is None:
            break
        previous = logged(metadata)
        found.append(previous)
    return found
