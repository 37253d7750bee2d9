"""The ledger of one attempt. It checks that each row that a partition sent arrived exactly once.

As in Storm's acker, all tokens of rows that are sent and of rows that arrive are XORed into one number, which is 0 in
the end. The ledger also keeps for each edge and sending partition how many rows were sent and how many arrived, so that
it can name missing rows. A report that comes twice would cancel itself in the XOR. Therefore a second report of a
partition, or a report of another attempt, is only counted.

Meaning: ``org.apache.storm.daemon.Acker``, with partitions in place of tuples: the ledger grows with partitions and
edges, never with rows.
"""

import enum
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from trident.base.errors import LedgerError
from trident.compiler.tracking.tokens import Edge, Ids, Tally

_MOST_SHOWN = 5


class Report(msgspec.Struct, frozen=True):
    """The report of one partition, made once, at its end.

    `edge`: the edge over which it sent `rows` rows, the XOR of whose tokens is `value`. `seal`: see `Edge.seal`.
    `arrived`: the rows that it received itself, by edge and by the partition that sent them, each as [rows, value].
    """

    edge: str
    partition: int
    seal: int
    rows: int
    value: int
    arrived: dict[str, dict[int, tuple[int, int]]] = {}

    def line(self) -> str:
        """Return the report as a line of text, which a worker sends as one of its rows."""
        return _MARK + msgspec.json.encode(self).decode()


_MARK = "TRIDENT-LEDGER "


def is_report(line: str) -> bool:
    """Return whether a line of text from a worker is a report."""
    return line.startswith(_MARK)


def report_in(line: str) -> Report | None:
    """Return the report in a line of text from a worker; None for other lines.

    >>> report_in(Report("a", 1, 7, 2, 9, {"b": {0: (2, 4)}}).line())
    Report(edge='a', partition=1, seal=7, rows=2, value=9, arrived={'b': {0: (2, 4)}})
    >>> report_in('{"step": "a"}')
    """
    return msgspec.json.decode(line[len(_MARK) :], type=Report) if is_report(line) else None


class Root(NamedTuple):
    """The edge from a source to the first step: its name, and the number of tuples (None if not known)."""

    edge: str
    rows: int | None


class Taken(enum.Enum):
    """The treatment of a report by the ledger: counted, repeated, or foreign."""

    COUNTED = "counted"
    DUPLICATE = "duplicate"
    STALE = "stale"


@dataclass(slots=True)
class _Sent:
    """The rows of one partition on one edge: the sent rows (None until the report comes), and the rows that arrived."""

    sent: Tally | None = None
    arrived: Tally = Tally()


@dataclass(slots=True)
class Ledger:
    """The ledger of one attempt at one stage.

    Edges are registered before the job that uses them starts. `secret` is the run's; with `attempt` it keys all tokens.
    """

    secret: bytes
    attempt: str
    value: int = 0
    """The XOR of all tokens. It is 0 once each sent row has arrived once, and no other row has."""
    reports: int = 0
    duplicates: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Reports that came a second time, by edge and partition."""
    stale: int = 0
    """Reports of other attempts, or of edges that this ledger does not know."""
    _edges: dict[str, Edge] = field(default_factory=dict)
    _senders: dict[str, dict[int, _Sent]] = field(default_factory=dict)
    _roots: dict[str, int | None] = field(default_factory=dict)
    _awaited: set[str] = field(default_factory=set)

    # --- before the job ------------------------------------------------------------------------------------------

    def edge(self, name: str) -> Edge:
        """Register an edge between partitions, and return it for the sender and the receiver."""
        self._senders.setdefault(name, {})
        return self._edges.setdefault(name, Edge.of(self.secret, self.attempt, name))

    def sink(self, name: str) -> Edge:
        """Register an edge that leads to the driver. `arrive` must be called for it, even without rows."""
        self._awaited.add(name)
        return self.edge(name)

    def root(self, root: Root) -> None:
        """Register the edge of a source's tuples. They have no ids yet, so only their number is compared."""
        self._roots[root.edge] = root.rows
        self._senders.setdefault(root.edge, {})

    def enter(self, root: Root, rows: int) -> None:
        """Register the edge of a source's tuples, and note how many entered."""
        self.root(root)
        self._arrived(root.edge, {0: Tally(rows)})

    # --- reports ---------------------------------------------------------------------------------------------------

    def take(self, report: Report) -> Taken:
        """Add the report of a partition, unless it was added before or belongs to another attempt."""
        edge = self._edges.get(report.edge)
        if edge is None or edge.seal(report.partition) != report.seal:
            self.stale += 1
            return Taken.STALE
        entry = self._senders[edge.name].setdefault(report.partition, _Sent())
        if entry.sent is not None:
            self.duplicates[edge.name, report.partition] += 1
            return Taken.DUPLICATE
        entry.sent = Tally(report.rows, report.value)
        self.value ^= report.value
        self.reports += 1
        for name, senders in report.arrived.items():
            self._arrived(name, {sender: Tally(*tally) for sender, tally in senders.items()})
        return Taken.COUNTED

    def arrive(self, name: str, ids: Ids) -> None:
        """Note the rows that the driver itself received over an edge."""
        self._awaited.discard(name)
        self._arrived(name, dict(self._edges[name].by_sender(ids)))

    def _arrived(self, name: str, senders: Mapping[int, Tally]) -> None:
        for sender, tally in senders.items():
            entry = self._senders.setdefault(name, {}).setdefault(sender, _Sent())
            entry.arrived += tally
            self.value ^= tally.value

    # --- in the end ------------------------------------------------------------------------------------------------

    @property
    def done(self) -> bool:
        """Return whether every expected report has come, and each sent row arrived once."""
        return self.value == 0 and not self.duplicates and next(self._problems(), None) is None

    def check(self) -> None:
        """Raise LedgerError if the ledger is not done. The error says which edge and partition lost or doubled rows."""
        if self.done:
            return
        problems = list(self._problems()) or [f"its final value is {self.value:#x}, expected 0"]
        shown = "; ".join(problems[:_MOST_SHOWN])
        more = f"; and {len(problems) - _MOST_SHOWN} more" if len(problems) > _MOST_SHOWN else ""
        raise LedgerError(
            f"the ledger of attempt {self.attempt} is not settled, so rows were lost or repeated: {shown}{more}"
        )

    def _problems(self) -> Iterator[str]:
        for name in sorted(self._awaited):
            yield f"{name}: none of its rows reached the driver"
        for name, senders in self._senders.items():
            if name in self._roots:
                expected, entered = self._roots[name], sum(entry.arrived.rows for entry in senders.values())
                if expected is not None and expected != entered:
                    yield f"{name}: the source emitted {expected} rows, {_difference(expected, entered)}"
                continue
            for partition, entry in sorted(senders.items()):
                yield from self._problem(name, partition, entry)

    def _problem(self, name: str, partition: int, entry: _Sent) -> Iterator[str]:
        where, sent, arrived = f"{name}, partition {partition}", entry.sent, entry.arrived
        again = self.duplicates[name, partition]
        twice = f" (its report came {again + 1} times)" if again else ""
        if sent is None:
            yield f"{where}: it did not report how many rows it sent; {arrived.rows} rows arrived"
        elif sent.rows != arrived.rows:
            yield f"{where}: it sent {sent.rows} rows, {_difference(sent.rows, arrived.rows)}{twice}"
        elif sent != arrived:
            yield (
                f"{where}: {sent.rows} rows arrived of {sent.rows}, but not the same ones: some were lost, some "
                f"arrived twice{twice}"
            )
        elif again:
            yield f"{where}: it reported {again + 1} times"


def _difference(sent: int, arrived: int) -> str:
    """Return in words how the rows that arrived differ from the sent rows.

    >>> _difference(10, 7), _difference(10, 12)
    ('7 arrived: 3 are lost', '12 arrived: 2 too many')
    """
    return f"{arrived} arrived: " + (f"{sent - arrived} are lost" if arrived < sent else f"{arrived - sent} too many")
