"""Calls of a spout as a run makes them, without a run."""

import json
from typing import Any

from trident.base.attempt import TransactionAttempt
from trident.testing.contracts.spout_calls import waits_for
from trident_spouts.adapters.adapter_choice import as_spout
from trident_spouts.executor import Metadata, SpoutExecutor


def logged(metadata: Metadata) -> Metadata:
    """Return metadata as it comes back from the log."""
    return json.loads(json.dumps(metadata))  # type: ignore[no-any-return]


def planned(
    spout: Any, limit: int = 100, executor: SpoutExecutor | None = None, previous: Metadata = None
) -> list[Any]:
    """Return the metadata of the batches that the spout plans, one after the other, until it is idle."""
    executor = executor or as_spout(spout).open()
    plans: list[Any] = []
    while len(plans) < limit:
        metadata = executor.plan(TransactionAttempt(len(plans) + 1, 0), previous, 0.0)
        if metadata is None and waits_for(executor) is not None:
            continue
        if metadata is None:
            break
        previous = logged(metadata)
        plans.append(previous)
    return plans
