"""The endpoints of a topology's page, and of the answers that it shows: topology, status, events, dead letters."""

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from trident.server import bodies, dead_letters
from trident.server.endpoints import Endpoint
from trident.server.event_stream import EventStreams
from trident.server.guards import Guards
from trident.server.page_files import file_endpoints
from trident.server.route_types import InThread
from trident.server.served_topology import Served
from trident.server.state_pages import Listings
from trident.server.topology_body import letter_states, topology_body


def endpoints(
    served: Served,
    listings: Listings,
    in_thread: InThread,
    body: Callable[[Request], Awaitable[bytes]],
    count: Callable[[str, str], int],
    guards: Guards,
) -> list[Endpoint]:
    """Return the endpoints of the page.

    The other arguments are the server's functions to read states and bodies, work in threads and count.
    """
    streams = EventStreams(served.watched, in_thread, guards)

    async def topology(request: Request) -> Response:
        return _json(await in_thread(lambda: topology_body(served)))

    async def status(request: Request) -> Response:
        return _json(await in_thread(served.watched.status))

    async def events(request: Request) -> Response:
        return streams.open(request)

    async def listed(request: Request) -> Response:
        most = count("limit", request.query_params.get("limit", "200"))
        states = await in_thread(lambda: letter_states(served.watched.plan))
        kept = {name: (await listings.of(request, served.state(name))).entries for name in states}
        return _json(await in_thread(lambda: dead_letters.letters_of(served, kept, most)))

    async def replay(request: Request) -> Response:
        wanted = bodies.read_body(await body(request), dead_letters.ReplayWanted)
        return _json(await in_thread(lambda: dead_letters.replay(served, wanted)))

    return [
        *file_endpoints(),
        Endpoint("/topology", topology),
        Endpoint("/status", status),
        Endpoint("/events", events),
        Endpoint("/dead-letters", listed),
        Endpoint("/dead-letters/replay", replay, ("POST",)),
    ]


def _json(content: msgspec.Struct) -> Response:
    return Response(bodies.json_body(content), media_type=bodies.JSON, headers={"Cache-Control": "no-store"})
