"""The ledger of a stage in one process: a step that only moves tuples must output as many as entered."""

from trident.compiler.tracking.ledger import Ledger, Report, Root
from trident.compiler.tracking.tokens import row_ids


class StepLedger:
    """A ledger in which every step has one partition, number 0.

    The tuples carry no ids, so only their numbers are compared; a doubled tuple may hide a lost one.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def entered(self, source: str, expected: int | None, rows: int) -> None:
        """Note how many tuples a source emitted for this batch, and how many entered the first step."""
        self._ledger.enter(Root(f"{source} to the engine", expected), rows)

    def moved(self, step: str, entered: int, left: int) -> None:
        """Note how many tuples entered a step that must pass all of them on, and how many left it."""
        edge = self._ledger.sink(step)
        self._ledger.take(Report(step, 0, edge.seal(0), entered, edge.tally(row_ids(0, 0, entered)).value))
        self._ledger.arrive(step, row_ids(0, 0, left))

    def check(self) -> None:
        """Raise LedgerError if tuples were lost or doubled."""
        self._ledger.check()
