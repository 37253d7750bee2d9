"""The output that adds the numbers of committed batches to a counter of the run's metrics."""

import logging
from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from trident.base.json_values import jsonable
from trident.base.metrics import MetricsRegistry
from trident.frozen.results import Result
from trident.plan.nodes import CountMetric

logger = logging.getLogger(__name__)


class MetricOutlet:
    """Adds each batch once, even if a later failure of the commit makes the output receive the batch again.

    `labels` are the labels of every series; the tuples have the values of the other labels. `read` returns the tuples
    of a result.
    """

    def __init__(
        self,
        sink: CountMetric,
        metrics: MetricsRegistry,
        labels: Mapping[str, str],
        read: Callable[[Result], Iterable[pa.Table]],
    ) -> None:
        self._sink, self._metrics, self._labels, self._read = sink, metrics, dict(labels), read
        self._refused = False
        self._added = 0
        """The last txid that was added. Batches are committed in the order of their txids."""

    def take(self, result: Result, txid: int) -> None:
        """Add the numbers of a batch."""
        if txid <= self._added:
            return
        # All rows are read before the first number is added, because a file that cannot be read fails the commit.
        tuples = [row for table in self._read(result) for row in table.to_pylist()]
        for row in tuples:
            number = row.pop(self._sink.number) or 0
            if not number >= 0:  # negative, or NaN
                logger.warning(
                    "%s: batch %d adds %s to %s%s; a counter only grows, so this value is skipped",
                    self._sink.step,
                    txid,
                    number,
                    self._sink.metric,
                    row or "",
                )
                continue
            self._count(number, {name: _text(value) for name, value in row.items()})
        self._added = txid

    def _count(self, number: float, labels: dict[str, str]) -> None:
        """Add a number.

        If the registry refuses it, log that once, because a batch must not fail because of a metric.
        """
        number = number if isinstance(number, int) else float(number)  # a decimal and a float cannot be added
        try:
            self._metrics.count(self._sink.metric, self._sink.help, number, **labels, **self._labels)
        except ValueError as error:
            if not self._refused:
                self._refused = True
                logger.warning("%s: the metric is no longer counted: %s", self._sink.step, error)


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(jsonable(value))
