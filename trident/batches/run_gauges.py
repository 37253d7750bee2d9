"""Gauges of a run that are computed when metrics are collected."""

from collections.abc import Callable, Mapping

from trident.base.metrics import MetricsRegistry
from trident.batches.group_run import GroupRun
from trident.log.protocol import TransactionLog
from trident_state.store import Counted, Store


def gauges_of(
    topology: str, runs: Mapping[str, GroupRun], log: TransactionLog, stores: Mapping[str, Store]
) -> Callable[[MetricsRegistry], None]:
    """Return a function that sets the gauges of a run. `stores` are the stores of its states, without their lanes."""

    def look(metrics: MetricsRegistry) -> None:
        for group, run in runs.items():
            labels = {"topology": topology, "group": group}
            text = "1 while a batch group runs, 0 after it has ended."
            metrics.set("trident_group_active", text, not run.done.is_set(), **labels)
            if (error := run.error) is not None:
                # FencedError: another driver has taken over, and what this one sends is refused.
                text = "1 for the error that ended a batch group."
                metrics.set("trident_group_failed", text, 1, error=type(error).__name__, **labels)
        if all(run.done.is_set() for run in runs.values()):  # log and stores are closed, or about to be
            return
        if (size := log.size()) is not None:
            metrics.set("trident_log_bytes", "Bytes of the log.", size, topology=topology)
        for state, store in stores.items():
            if isinstance(store, Counted) and (keys := store.count()) is not None:
                metrics.set("trident_state_keys", "Keys in a state.", keys, topology=topology, state=state)

    return look
