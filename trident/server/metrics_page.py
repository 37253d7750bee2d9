"""``GET /metrics``: the metrics of a topology and of the requests to this server, in the format of Prometheus."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from trident.base.errors import TridentError
from trident.base.metrics import SECONDS, MetricFamily, MetricKind, MetricsRegistry
from trident.server.errors import RequestError
from trident.server.route_types import Handler, InThread
from trident.server.served import Served

if TYPE_CHECKING:
    from prometheus_client.core import Metric


def answer(served: Served, requests: MetricsRegistry, in_thread: InThread) -> Handler:
    """Return the handler of the metrics. `requests` holds the metrics of this server's requests."""

    async def metrics(request: Request) -> Response:
        try:
            from prometheus_client import CONTENT_TYPE_LATEST
        except ImportError:
            raise RequestError(
                501, "MissingPackageError", "metrics need prometheus-client: pip install 'trident-pyspark[server]'"
            ) from None
        text = await in_thread(lambda: exposition([*served.metrics.collect(), *requests.collect(), *_reads(served)]))
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics


def exposition(families: Sequence[MetricFamily]) -> bytes:
    """Return metrics in the text format of Prometheus."""
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.registry import Collector

    class _Families(Collector):
        def collect(self) -> "Iterator[Metric]":
            return map(_as_prometheus, families)

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families())
    return generate_latest(registry)


def _as_prometheus(family: MetricFamily) -> "Metric":
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    series = next(iter(family.histograms or family.values), ())
    names = [name for name, _ in series]
    if family.kind is MetricKind.HISTOGRAM:
        histograms = HistogramMetricFamily(family.name, family.help, labels=names)
        for labels, histogram in family.histograms.items():
            below, buckets = 0, list[tuple[str, float]]()
            for bound, count in zip([*map(str, SECONDS), "+Inf"], histogram.counts, strict=True):
                below += count
                buckets.append((bound, below))
            histograms.add_metric([value for _, value in labels], buckets, histogram.sum)
        return histograms
    make = CounterMetricFamily if family.kind is MetricKind.COUNTER else GaugeMetricFamily
    values = make(family.name, family.help, labels=names)
    for labels, value in family.values.items():
        values.add_metric([value for _, value in labels], value)
    return values


def _reads(served: Served) -> list[MetricFamily]:
    """Return metrics of the states at this moment: whether they can be read, and as of which txids."""
    now = MetricsRegistry()
    try:
        for group, txid in served.asOfTxid.items():
            now.set("trident_served_txid", "Txid that reads are as of now.", txid, topology=served.name, group=group)
        ready = True
    except TridentError:
        ready = False
    now.set("trident_ready", "1 if states can be read now, otherwise 0.", ready, topology=served.name)
    return now.collect()
