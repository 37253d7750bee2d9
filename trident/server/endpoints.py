"""The endpoints of a server. An endpoint is a path with its methods, handler and requirements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Match, Route

from trident.server.route_types import Handler


class _AnyText(PathConvertor):
    """The rest of a path, with any characters. Starlette's ``path`` ends at a newline, which a key may contain."""

    regex = "(?s:.*)"


register_url_convertor("text", _AnyText())


@dataclass(frozen=True)
class Endpoint:
    """A path of the server, and the handler of its requests.

    Every endpoint has the same guards (`guards.py`), except for those that its fields below turn off.
    """

    path: str
    """The path in Starlette's form: ``/state/{state}``."""
    answer: Handler
    methods: tuple[str, ...] = ("GET",)
    """The methods that the endpoint answers; HEAD comes with GET."""
    needsToken: bool = True
    """False if the answer reveals nothing about the topology, or does so only to clients with a token."""
    checksRights: bool = False
    """True if the answer checks the rights of a token with few rights by itself, because its body names the states."""
    isProbe: bool = False
    """True for the probes of a supervisor. A supervisor uses the server's address as the host name, and must get an
    answer even from a busy server. Otherwise it would kill a healthy process."""
    route: Route = field(init=False, repr=False)
    start: str = field(init=False, repr=False)
    """The beginning of all paths of this endpoint: a faster test than the regular expression of the route."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "route", Route(self.path, self.answer, methods=list(self.methods)))
        object.__setattr__(self, "start", self.path.partition("{")[0])


class Found(NamedTuple):
    """The endpoint for a request, and the parameters in the path."""

    endpoint: Endpoint | None
    """None if no endpoint has this path, or if no endpoint with this path has this method."""
    parameters: dict[str, Any]
    allowed: tuple[str, ...]
    """The methods that the path allows; empty if there is no such path."""


def find_endpoint(endpoints: Sequence[Endpoint], scope: dict[str, Any]) -> Found:
    """Return the first endpoint that answers a request. If no endpoint has the path, a slash at its end is ignored."""
    allowed, parameters = set[str](), dict[str, Any]()
    path = scope["path"]
    for endpoint in endpoints:
        if not path.startswith(endpoint.start):
            continue
        match, child = endpoint.route.matches(scope)
        if match is Match.FULL:
            return Found(endpoint, child["path_params"], ())
        if match is Match.PARTIAL:
            allowed |= endpoint.route.methods or set()
            parameters = child["path_params"]
    if not allowed and path.rstrip("/") != path and len(path) > 1:
        return find_endpoint(endpoints, scope | {"path": path[:-1]})
    return Found(None, parameters, tuple(sorted(allowed)))
