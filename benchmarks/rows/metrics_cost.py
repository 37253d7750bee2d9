"""The cost of a run's metrics: the word count with them, and with a run that counts nothing."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from benchmarks.bench import Bench
from benchmarks.check import Counts
from benchmarks.ours import ours
from benchmarks.rounds import median_seconds
from benchmarks.row import Row
from benchmarks.workload import Workload
from trident.state import MemoryMapState
from trident.telemetry.run_metrics import RunMetrics


def metrics_cost(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure both in turn, round after round. The memory state is used, beside which a cost shows most."""

    def counted(folder: Path) -> tuple[float, Counts]:
        return ours(bench.spark, load, "native", MemoryMapState.opaque(), folder)

    def uncounted(folder: Path) -> tuple[float, Counts]:
        with mock.patch.object(RunMetrics, "hear", return_value=None):
            return counted(folder)

    seconds = median_seconds(bench, {"counted": counted, "uncounted": uncounted}, load.expected)
    text = "word count, split by expr, memory state: with the run's metrics, against without"
    yield Row("metrics.cost", text, seconds["counted"], seconds["uncounted"], "s", 1.03, "at most")
