"""The doors of a server: its paths and methods, each with its requirements."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from starlette.convertors import PathConvertor, register_url_convertor
from starlette.routing import Match, Route

from trident.server.route_types import Handler


class _AnyText(PathConvertor):
    """The rest of a path, whatever it holds. Starlette's own ``path`` ends at a newline, which a key may have."""

    regex = "(?s:.*)"


register_url_convertor("text", _AnyText())


@dataclass(frozen=True)
class Door:
    """A path of the server, and the handler of its requests.

    Every door has the same guards (`guards.py`), with the exceptions that it names here.
    """

    path: str
    """The path as Starlette writes it: ``/state/{state}``."""
    answer: Handler
    methods: tuple[str, ...] = ("GET",)
    """The methods that the door answers; HEAD comes with GET."""
    needsToken: bool = True
    """False if the answer tells nothing of the topology, or only to those who have the token."""
    isProbe: bool = False
    """True for the probes of a supervisor. It asks under the server's address, whatever the server's name is, and gets
    an answer however busy the server is: else it would end a process that is well."""
    route: Route = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "route", Route(self.path, self.answer, methods=list(self.methods)))


class Found(NamedTuple):
    """The door for a request, and the parameters in the path."""

    door: Door | None
    """None if no door has this path, or none of those that have it this method."""
    parameters: dict[str, Any]
    allowed: tuple[str, ...]
    """The methods that the path allows; none if there is no such path."""


def find_door(doors: Sequence[Door], scope: dict[str, Any]) -> Found:
    """Return the first door that answers a request. A slash at the end of a path that has no door does not count."""
    allowed, parameters = set[str](), dict[str, Any]()
    for door in doors:
        match, child = door.route.matches(scope)
        if match is Match.FULL:
            return Found(door, child["path_params"], ())
        if match is Match.PARTIAL:
            allowed |= door.route.methods or set()
            parameters = child["path_params"]
    if not allowed and scope["path"].rstrip("/") != scope["path"] and len(scope["path"]) > 1:
        return find_door(doors, scope | {"path": scope["path"][:-1]})
    return Found(None, parameters, tuple(sorted(allowed)))
