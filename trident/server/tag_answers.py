"""Tags over HTTP: listing, adding and dropping them. A token with few rights needs the right to do so."""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from trident.base.argument_checks import whole_number_in
from trident.base.errors import StateError, TagExistsError, TagNotFoundError
from trident.base.json_values import jsonable
from trident.reads.tagging import Tag
from trident.server import bodies
from trident.server.access_rules import Grant
from trident.server.connection import while_connected
from trident.server.endpoints import Endpoint
from trident.server.errors import RequestError
from trident.server.guards import json_answer
from trident.server.limits import Limits
from trident.server.request_context import context_of
from trident.server.route_types import InThread
from trident.server.served_topology import Served
from trident.server.waiting_requests import Waiting

Body = Callable[[Request], Awaitable[bytes]]


class TagAnswers:
    """The tags of one server. Its methods run in the server's event loop."""

    def __init__(self, served: Served, in_thread: InThread, waiting: Waiting, limits: Limits, body: Body) -> None:
        self._served, self._in_thread, self._waiting = served, in_thread, waiting
        self._limits, self._body = limits, body

    def endpoints(self) -> list[Endpoint]:
        """Return the endpoints of the tags."""
        return [
            Endpoint("/tags", self._tags, ("GET", "POST"), checksRights=True),
            Endpoint("/tags/{tag}", self._drop, ("DELETE",), checksRights=True),
        ]

    async def _tags(self, request: Request) -> Response:
        return await (self._make(request) if request.method == "POST" else self._list(request))

    async def _list(self, request: Request) -> Response:
        """Answer with the tags; for a token with few rights, those of its states."""
        found = await self._found(request)
        return json_answer({"tags": [jsonable(tag.asDict()) for tag in found]})

    async def _found(self, request: Request) -> list[Tag]:
        grant = context_of(request).grant
        grant.check_tags()
        tags = await while_connected(request, self._in_thread(self._served.tags))
        return [tag for tag in tags if grant.allows_tag(_states_of(tag))]

    async def _make(self, request: Request) -> Response:
        grant = context_of(request).grant
        grant.check_tags()
        wanted = bodies.read_body(await self._body(request), bodies.TagWanted)
        check_states(grant, wanted.states)
        await self._waiting.reach(request, wanted.minTxid, self._limits.timeoutSecs)
        as_of = wanted.asOf
        batch = int(as_of) if isinstance(as_of, str) and whole_number_in(as_of) is not None else as_of

        def work() -> Tag:
            if grant.isLimited and not all(
                grant.allows_tag(_states_of(tag)) for tag in self._served.tags() if tag.name == wanted.name
            ):
                raise TagExistsError(f"the tag {wanted.name!r} exists already, for other states: give another name")
            try:
                return self._served.tag(wanted.name, batch, states=wanted.states)
            except ValueError as error:  # of a time or a tag in asOf
                raise RequestError(400, "InvalidBody", str(error)) from None
            except StateError as error:
                if type(error) is not StateError:
                    raise
                raise RequestError(400, "StateError", str(error)) from None  # the states keep no tags

        tag = await while_connected(request, self._in_thread(work))
        return json_answer({"tag": jsonable(tag.asDict())})

    async def _drop(self, request: Request) -> Response:
        name = request.path_params["tag"]
        if name not in (known := [tag.name for tag in await self._found(request)]):
            raise TagNotFoundError(f"no tag {name!r}; the tags are {', '.join(known) or 'none'}")
        await while_connected(request, self._in_thread(partial(self._served.dropTag, name)))
        return json_answer({"dropped": name})


def check_states(grant: Grant, states: Iterable[str] | None) -> None:
    """Raise RequestError unless the grant allows a tag of these states; None means all states."""
    if grant.isLimited and states is None:
        raise RequestError(
            403, "Forbidden", "this token allows tags of its own states only: name these states in states"
        )
    for state in states or ():
        grant.check(None, state)


def _states_of(tag: Tag) -> set[str]:
    return {*tag.states, *tag.missing}
