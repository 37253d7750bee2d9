"""The reports that Python functions give as rows among their tuples, and the way the driver handles them."""

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from trident.base.errors import UserFunctionError
from trident.compiler.columns.dead_letters import Letters
from trident.compiler.columns.function_errors import decoded, is_failure
from trident.compiler.spark.failure_signal import FailureSignal
from trident.compiler.spark.worker_functions import REPORT


@dataclass(frozen=True, slots=True)
class Reports:
    """The reader of a job's reports: a failure is raised, and the letters take what was caught.

    `signal` is what the job's functions send before they report a failure; without one they raise failures.
    """

    signal: FailureSignal | None = None
    letters: Letters = field(default_factory=Letters)

    def read(self, rows: pa.Table) -> None:
        """Read the reports among the rows, in their last column. Raises the error of the first failure."""
        texts = rows.column(REPORT).drop_null().to_pylist()
        for text in texts:
            if is_failure(text):
                raise decoded(text) or UserFunctionError(text)
        self.letters.add_lines(texts)


def tuples_of(rows: pa.Table) -> pa.Table:
    """Return the rows that are tuples, without the column of the reports."""
    reports = rows.column(REPORT)
    tuples = rows.drop_columns([REPORT])
    return tuples if reports.null_count == len(reports) else tuples.filter(pc.is_null(reports))
