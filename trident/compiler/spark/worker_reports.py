"""The reports that Python functions emit as rows among their tuples, and how the driver handles them."""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import UserFunctionError
from trident.compiler.columns.dead_letters import Letters
from trident.compiler.columns.function_errors import decoded, is_failure
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.step_meter import StepMeter
from trident.compiler.spark.worker_functions import REPORT
from trident.compiler.tracking.ledger import Ledger, Root, is_report, report_in
from trident.compiler.tracking.row_paths import ROW_ID
from trident.compiler.tracking.tokens import Edge


@dataclass(frozen=True, slots=True)
class Reports:
    """The reader of a job's reports. It raises failures, and adds caught tuples to `letters`.

    `signal` is the message that the job's functions send before they report a failure; without one they raise failures.
    """

    signal: FailureSignal | None = None
    letters: Letters = field(default_factory=Letters)
    ledger: Ledger | None = None
    meter: StepMeter | None = None
    """The meter for the steps of the job's functions; None in Connect mode."""

    def read(self, rows: pa.Table) -> None:
        """Read the reports in the last column of the rows. Raises the error of the first failure."""
        texts = rows.column(REPORT).drop_null().to_pylist()
        for text in texts:
            if is_failure(text):
                raise decoded(text) or UserFunctionError(text)
        if self.ledger is not None:
            for report in filter(None, map(report_in, texts)):
                self.ledger.take(report)
        self.letters.add_lines([text for text in texts if not is_report(text)])

    def sink(self, name: str) -> Edge | None:
        """Return the edge over which a branch's rows reach the driver; None if the batch has no ledger."""
        return None if self.ledger is None else self.ledger.sink(name)

    def entering(self, root: Root | None) -> None:
        """Tell the ledger how many tuples of a source to expect, if that number is known."""
        if self.ledger is not None and root is not None:
            self.ledger.root(root)

    def arrived(self, edge: Edge | None, rows: pa.Table) -> pa.Table:
        """Enter the rows that arrived over an edge into the ledger, and return them without their ids."""
        if edge is None or self.ledger is None:
            return rows
        self.ledger.arrive(edge.name, rows.column(ROW_ID).to_numpy())
        return rows.drop_columns([ROW_ID])


def tuples_of(rows: pa.Table) -> pa.Table:
    """Return the tuples among the rows, without the column of the reports."""
    reports = rows.column(REPORT)
    tuples = rows.drop_columns([REPORT])
    return tuples if reports.null_count == len(reports) else tuples.filter(pc.is_null(reports))
