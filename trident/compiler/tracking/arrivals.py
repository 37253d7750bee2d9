"""The rows that arrive in one partition on a worker, tallied by edge and sending partition."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from trident.compiler.tracking.ledger import Root
from trident.compiler.tracking.tokens import Edge, Tally

_ROOT = 0
"""The number that replaces the sending partition if a source is the sender."""


@dataclass(slots=True)
class Arrivals:
    """Tallies by edge and by sending partition."""

    tallies: dict[str, dict[int, Tally]] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    """Reports of other partitions that arrived among the rows. They are passed on to the driver."""

    def add(self, edge: Edge, ids: pa.Array) -> None:
        """Add the rows with these ids."""
        senders = self.tallies.setdefault(edge.name, {})
        for sender, tally in edge.by_sender(ids.to_numpy(zero_copy_only=False)):
            senders[sender] = senders.get(sender, Tally()) + tally

    def of_source(self, root: Root | None, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Return the record batches of a source. If a ledger counts them, their rows, which have no ids, are added."""
        return batches if root is None else self._counted(root.edge, batches)

    def _counted(self, edge: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        senders = self.tallies.setdefault(edge, {})
        for batch in batches:
            senders[_ROOT] = senders.get(_ROOT, Tally()) + Tally(batch.num_rows)
            yield batch

    def as_report(self) -> dict[str, dict[int, tuple[int, int]]]:
        """Return the tallies in the form of `Report.arrived`."""
        return {
            edge: {sender: (tally.rows, tally.value) for sender, tally in senders.items()}
            for edge, senders in self.tallies.items()
        }
