"""The files of the page: HTML, styles and scripts.

They are part of the package, so the page works without a network.
"""

import hashlib
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from starlette.requests import Request
from starlette.responses import Response

from trident.server.endpoints import Endpoint

_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}

_HEADERS = {
    # Scripts and styles come only from this server, none is inline, and no other page may frame this page.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    # A newer server's page is shown at once, and an unchanged file costs only an answer without a body.
    "Cache-Control": "no-cache",
}


def file_endpoints() -> list[Endpoint]:
    """Return the endpoints of the page's files. The files contain no data of the topology, so they need no token."""
    return [Endpoint("/", _answer, needsToken=False), Endpoint("/page/{path:path}", _answer, needsToken=False)]


async def _answer(request: Request) -> Response:
    path = request.path_params.get("path", "index.html")
    content = _contents().get(path)
    if content is None:
        return Response("no such file", 404, _HEADERS, "text/plain")
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    headers = {**_HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=_TYPES[path.rpartition(".")[2]])


@cache
def _contents() -> dict[str, bytes]:
    """Return the content of each file of the page by path. The path of a request is only looked up in this dict."""
    return {path: file.read_bytes() for path, file in _walk("", files("trident.server").joinpath("page"))}


def _walk(above: str, folder: Traversable) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for entry in folder.iterdir():
        if entry.is_dir():
            found += _walk(f"{above}{entry.name}/", entry)
        elif entry.name.rpartition(".")[2] in _TYPES:
            found.append((f"{above}{entry.name}", entry))
    return found
