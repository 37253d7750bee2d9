"""A group's spouts at work: planned, emitted and told together, one call at a time."""

import json
import logging
import threading

from trident.base.attempt import TransactionAttempt
from trident.base.errors import SpoutContractError
from trident.plan.nodes import Node, SpoutSource
from trident.runtime.events import BatchPlan, Positions
from trident_spouts.executor import Emission, Metadata, SpoutExecutor, SpoutKind

logger = logging.getLogger(__name__)

_JSON = json.JSONEncoder(allow_nan=False)


class Sources:
    """The spout executors of one batch group."""

    def __init__(self, spouts: tuple[SpoutSource, ...]) -> None:
        self._nodes = {node.stream: node for node in spouts}
        self._lock = threading.Lock()
        self._executors: dict[str, SpoutExecutor] = {}
        try:
            for stream, node in self._nodes.items():
                self._executors[stream] = node.spout.open()
        except BaseException:
            self.close()
            raise

    @property
    def ahead(self) -> bool:
        """Whether a batch can be planned before the one before it is frozen."""
        return all(executor.plans_ahead for executor in self._executors.values())

    @property
    def replans(self) -> bool:
        """Whether a failed batch may be planned anew."""
        return any(self._opaque(stream) for stream in self._nodes)

    def plan(
        self, attempt: TransactionAttempt, previous: Positions, kept: BatchPlan | None, time: float
    ) -> BatchPlan | None:
        """Name the batch; None where no spout has anything. Spouts that replay exactly keep their part of `kept`."""
        plan: BatchPlan = {}
        with self._lock:
            for stream, executor in self._executors.items():
                if kept is not None and stream in kept and not self._opaque(stream):
                    plan[stream] = kept[stream]
                else:
                    plan[stream] = self._json(stream, executor.plan(attempt, previous.get(stream), time))
        return None if all(metadata is None for metadata in plan.values()) else plan

    def emit(self, attempt: TransactionAttempt, plan: BatchPlan) -> dict[Node, Emission | None]:
        """The tuples that the plan names, by spout node; None for a spout that has nothing in this batch."""
        emissions: dict[Node, Emission | None] = {}
        with self._lock:
            for stream, executor in self._executors.items():
                metadata = plan.get(stream)
                emissions[self._nodes[stream]] = None if metadata is None else executor.emit(attempt, metadata)
        return emissions

    def after(self, previous: Positions, plan: BatchPlan, emissions: dict[Node, Emission | None]) -> Positions:
        """Where the spouts stand after an emitted batch."""
        positions = dict(previous)
        for stream, node in self._nodes.items():
            emission = emissions[node]
            if emission is not None:
                after = self._json(stream, emission.after)
                positions[stream] = plan[stream] if after is None else after
        return positions

    def success(self, txid: int, plan: BatchPlan) -> None:
        """Everything up to `txid` is committed. A spout that raises here is reported and asked again next time."""
        with self._lock:
            for stream, executor in self._executors.items():
                if plan.get(stream) is not None:
                    try:
                        executor.success(txid, plan[stream])
                    except Exception:
                        logger.warning("spout %r failed to take success(%d)", stream, txid, exc_info=True)

    def fail(self, attempt: TransactionAttempt) -> None:
        """The attempt came to nothing."""
        with self._lock:
            for stream, executor in self._executors.items():
                try:
                    executor.fail(attempt)
                except Exception:
                    logger.warning("spout %r failed to take fail(%s)", stream, attempt, exc_info=True)

    def close(self) -> None:
        for stream, executor in self._executors.items():
            try:
                executor.close()
            except Exception:
                logger.warning("spout %r failed to close", stream, exc_info=True)

    def _opaque(self, stream: str) -> bool:
        return self._nodes[stream].spout.kind is SpoutKind.OPAQUE

    def _json(self, stream: str, metadata: Metadata) -> Metadata:
        """Metadata as the log will give it back."""
        if metadata is None:
            return None
        try:
            found: Metadata = json.loads(_JSON.encode(metadata))
        except (TypeError, ValueError) as error:
            raise SpoutContractError(
                f"spout {stream!r} gave metadata that is not JSON ({error}): {metadata!r:.200}"
            ) from error
        return found
