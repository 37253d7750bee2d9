"""The way of rows: how they get from one worker function to the next, or to the driver, with or without a ledger.

A function of a worker calls the same methods in both cases. Only this file checks whether there is a ledger.
"""

from dataclasses import dataclass, field

import pyarrow as pa

from trident.compiler.tracking.arrivals import Arrivals
from trident.compiler.tracking.ledger import Report
from trident.compiler.tracking.tokens import Edge, Tally, row_ids

ROW_ID = "__trident_row"
"""The hidden field with a tuple's id on the edge over which it leaves, if the batch has a ledger."""


@dataclass(frozen=True, slots=True)
class Way:
    """The way of rows from sender to receiver. If it has an `edge`, a ledger counts the rows."""

    edge: Edge | None = None
    ids: bool = True
    """True if the rows have ids, so that the receiver of the edge can tally them."""

    @property
    def fields(self) -> list[pa.Field]:
        """The hidden fields of the rows."""
        return [pa.field(ROW_ID, pa.int64())] if self.edge is not None and self.ids else []

    def departures(self, partition: int) -> "Departures":
        """Return the count of the rows that a partition sends."""
        return Departures(self, partition)

    def arrived(self, rows: pa.RecordBatch, arrivals: Arrivals) -> pa.RecordBatch:
        """Add received rows to `arrivals`. Return them without their hidden fields."""
        if self.edge is None:
            return rows
        arrivals.add(self.edge, rows.column(rows.num_columns - 1))
        return rows.select(range(rows.num_columns - 1))


@dataclass(slots=True)
class Departures:
    """The rows that one partition sends over a way."""

    way: Way
    partition: int
    sent: Tally = field(default_factory=Tally)

    def hidden(self, rows: int) -> list[pa.Array]:
        """Count the next rows, and return the values of their hidden fields."""
        if self.way.edge is None or not self.way.ids:
            return []
        ids = row_ids(self.partition, self.sent.rows, self.sent.rows + rows)
        self.sent += self.way.edge.tally(ids)
        return [pa.array(ids)]

    def report(self, arrivals: Arrivals) -> list[str]:
        """Return the partition's report at its end, as lines: of the rows that it sent, and of those that arrived."""
        edge = self.way.edge
        if edge is None:
            return []
        seal, sent = edge.seal(self.partition), self.sent
        return [Report(edge.name, self.partition, seal, sent.rows, sent.value, arrivals.as_report()).line()]
