"""The results of the guards for a request, which its handler reads."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from trident.server.access_rules import Grant
from trident.server.request_slots import RequestSlots
from trident.server.timeouts import Alarms


@dataclass
class RequestContext:
    """The grant of a request, and its place among the requests in flight."""

    grant: Grant
    inFlight: RequestSlots
    alarms: Alarms
    """The limits of time of the server's requests."""
    _give_back: Callable[[], None] | None = None

    @property
    def holder(self) -> str:
        """The token of the request, by which places are shared."""
        return self.grant.holder

    def enter(self) -> None:
        """Count the request as in flight. Raises RequestError if too many requests are in flight."""
        if self._give_back is None:
            self._give_back = self.inFlight.demand(self.holder)

    def leave(self) -> None:
        """Stop counting the request as in flight: it was answered, or waits for something counted separately."""
        if self._give_back is not None:
            self._give_back()
            self._give_back = None


def context_of(request: Request) -> RequestContext:
    """Return the RequestContext of a request."""
    return cast("RequestContext", request.scope["trident.context"])
