"""The record of each request: a line of the audit log, and the metrics of requests."""

import logging
from urllib.parse import quote

from trident.base.metrics import MetricsRegistry

audit = logging.getLogger("trident.audit")

NO_ENDPOINT = "other"
"""The path in metrics for requests with an unknown path. The real paths would create an unlimited number of series."""

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
_LONGEST = 200
_PLAIN = "/%!$&'()*+,;=:@-._~"


class Ledger:
    """Records each request once, when its answer begins or when it ends without one.

    Texts of clients are recorded only through `plain`, because newlines would break the log, and a terminal would
    execute control characters.
    """

    def __init__(self, metrics: MetricsRegistry) -> None:
        self._metrics = metrics

    def tell(self, client: str, method: str, path: bytes, endpoint: str | None, status: int, seconds: float) -> None:
        """Record a request with this path; `endpoint` is the pattern of its path."""
        at = endpoint or NO_ENDPOINT
        method = method if method in _METHODS else NO_ENDPOINT
        self._metrics.count(
            "trident_http_requests_total",
            "Requests that this server answered.",
            1,
            method=method,
            path=at,
            status=str(status),
        )
        self._metrics.observe(
            "trident_http_request_seconds", "Seconds from a request to the beginning of its answer.", seconds, path=at
        )
        if audit.isEnabledFor(logging.INFO):
            audit.info(
                "%s %s %s: %d in %.1f ms", plain(client), method, path_shown(path, endpoint), status, seconds * 1000
            )

    def tell_no_request(self, client: str, status: int) -> None:
        """Record bytes that were not a request. The server has answered with this status and closed the connection."""
        self.tell(client, NO_ENDPOINT, b"-", None, status, 0.0)


def plain(text: str | bytes) -> str:
    r"""Return a client's text in a form that is safe in a log line: printable ASCII, all other bytes percent-encoded.

    >>> plain("/state/a\nb \x1b[2J"), plain(b"/state/a%0Ab")
    ('/state/a%0Ab%20%1B%5B2J', '/state/a%0Ab')
    """
    content = text.encode(errors="replace") if isinstance(text, str) else text
    return quote(content[:_LONGEST], safe=_PLAIN)


def path_shown(raw: bytes, endpoint: str | None) -> str:
    """Return the path of a request as the audit log shows it: without keys; of an unknown path only the beginning.

    >>> path_shown(b"/state/counts/dog", "/state/{state}/{key:text}"), path_shown(b"/stat/counts/dog", None)
    ('/state/counts/...', '/stat/counts/...')
    """
    path = plain(raw)
    parts = path.split("/", 3)
    secret = endpoint is None or "{key" in endpoint
    return "/".join([*parts[:3], "..."]) if secret and len(parts) > 3 else path
