"""A stateful operation that keeps a sum by itself."""

from typing import Any

from trident import TransactionOperation


class Total(TransactionOperation):
    """The sum of all values of n so far, kept in memory only."""

    def initState(self, checkpoint: Any) -> None:
        self.total = checkpoint or 0

    rollback = initState

    def execute(self, tuple: Any, collector: Any) -> None:
        self.total += tuple.n
        collector.emit([self.total])

    def finishBatch(self, txid: int) -> int:
        return int(self.total)
