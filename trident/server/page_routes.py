"""The routes of a topology's page, and of the answers that it shows: topology, status, events, dead letters."""

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from trident.server import bodies, letters
from trident.server.event_stream import EventStreams
from trident.server.page_files import file_routes
from trident.server.route_types import Handler, InThread
from trident.server.served import Served
from trident.server.topology_body import topology_body


def routes(
    served: Served,
    guarded: Callable[[Handler], Handler],
    in_thread: InThread,
    body: Callable[[Request], Awaitable[bytes]],
    count: Callable[[str, str], int],
) -> list[Route]:
    """Return the routes of the page.

    The other arguments are the server's functions to check requests, read bodies, work in threads and count.
    """
    streams = EventStreams(served.watched, in_thread)

    async def topology(request: Request) -> Response:
        return _json(await in_thread(lambda: topology_body(served)))

    async def status(request: Request) -> Response:
        return _json(await in_thread(served.watched.status))

    async def events(request: Request) -> Response:
        return streams.open(request)

    async def dead_letters(request: Request) -> Response:
        most = count("limit", request.query_params.get("limit", "200"))
        return _json(await in_thread(lambda: letters.letters_of(served, most)))

    async def replay(request: Request) -> Response:
        wanted = bodies.read_body(await body(request), letters.ReplayWanted)
        return _json(await in_thread(lambda: letters.replay(served, wanted)))

    return [
        *file_routes(),
        Route("/topology", guarded(topology), methods=["GET"]),
        Route("/status", guarded(status), methods=["GET"]),
        Route("/events", guarded(events), methods=["GET"]),
        Route("/dead-letters", guarded(dead_letters), methods=["GET"]),
        Route("/dead-letters/replay", guarded(replay), methods=["POST"]),
    ]


def _json(content: msgspec.Struct) -> Response:
    return Response(bodies.json_body(content), media_type=bodies.JSON, headers={"Cache-Control": "no-store"})
