"""``GET /metrics``: the metrics of a topology and of the requests to this server, in the format of Prometheus."""

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from starlette.requests import Request
from starlette.responses import Response

from trident.base.errors import TridentError
from trident.base.metrics import MetricsRegistry
from trident.server.route_types import Handler, InThread
from trident.server.served_topology import Served


def answer(served: Served, requests: MetricsRegistry, in_thread: InThread) -> Handler:
    """Return the handler of the metrics. `requests` holds the metrics of this server's requests."""

    async def metrics(request: Request) -> Response:
        text = await in_thread(lambda: b"".join(map(generate_latest, (served.metrics, requests, _reads(served)))))
        return Response(text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    return metrics


def _reads(served: Served) -> MetricsRegistry:
    """Return metrics of the states at this moment: whether they can be read, and as of which txids."""
    now = MetricsRegistry()
    try:
        for group, txid in served.asOfTxid.items():
            now.set("trident_served_txid", "Txid as of which states are read.", txid, topology=served.name, group=group)
        ready = True
    except TridentError:
        ready = False
    now.set("trident_ready", "1 if states can be read now, otherwise 0.", ready, topology=served.name)
    return now
