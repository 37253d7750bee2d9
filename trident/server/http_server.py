"""The running server: a socket, and uvicorn in a separate thread."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from trident.base.context_manager import Ending
from trident.base.errors import MissingPackageError, TopologyError
from trident.base.secret_references import SOURCES
from trident.server.access_rules import AccessRules, Rights, is_loopback, read_token
from trident.server.limits import Limits
from trident.server.served_topology import Served
from trident.server.tls import TLS

if TYPE_CHECKING:
    import uvicorn

logger = logging.getLogger(__name__)

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")
_BACKLOG = 2048
_START_SECONDS = 10.0
_STOP_SECONDS = 5.0


def rules_for(
    host: str,
    token: str | None,
    allowedHosts: Collection[str],
    insecure: bool,
    tokens: Mapping[str, Rights] | None = None,
    tls: TLS | None = None,
) -> AccessRules:
    """Return the access rules of a server that is bound to `host`.

    Raises TopologyError if other machines could send requests without a token or a certificate (unless `insecure`), or
    if the files of `tls` cannot be used.
    """
    secret, limited = read_token(token), _limited(tokens or {})
    if secret in limited:
        raise TopologyError("tokens: one of them is also the server's token, which allows everything; use another one")
    if tls is not None:
        tls.check()
    proven = secret is not None or limited or (tls is not None and tls.provesClients)
    if not is_loopback(host) and not proven and not insecure:
        raise TopologyError(
            f"host={host!r}: other machines could read every state; give token='env:NAME' (or 'file:path'), require "
            f"client certificates (tls=TLS(cert, key, clientCA)), or listen on 127.0.0.1"
        )
    return AccessRules(secret, {*_LOOPBACK_NAMES, host, *allowedHosts}, limited)


def _limited(tokens: Mapping[str, Rights]) -> dict[bytes, Rights]:
    """Return the rights by token.

    Raises TopologyError if one secret has two names, because only one of its two rights would count.
    """
    limited, names = dict[bytes, Rights](), dict[bytes, str]()
    for name, rights in tokens.items():
        secret = read_token(name)
        assert secret is not None
        if secret in limited:
            named = [each if each.startswith(SOURCES) else "a token" for each in (names[secret], name)]
            raise TopologyError(
                f"tokens: {named[0]} and {named[1]} are the same token; give it once, with all of its rights"
            )
        limited[secret], names[secret] = rights, name
    return limited


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; port 0 means a free port. Raises TopologyError if the address cannot be bound."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise TopologyError(f"cannot listen on {host}:{port}: {error.strerror or error}") from None
    listening.listen(_BACKLOG)
    return listening


def url_of(listening: socket.socket, tls: TLS | None) -> str:
    """Return the address under which a server on this socket answers."""
    host, port = listening.getsockname()[:2]
    scheme = "http" if tls is None else "https"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def uvicorn_server(served: Served, rules: AccessRules, limits: Limits, tls: TLS | None = None) -> "uvicorn.Server":
    """Return a server of the web application.

    Raises MissingPackageError if packages of the extra `server` are missing, and TopologyError if rights name a
    function or a state that the topology does not have.
    """
    try:
        import uvicorn

        from trident.server.app import web_app
        from trident.server.http_protocol import http_protocol

        app = web_app(served, rules, limits)
        protocol = http_protocol(limits, app.tell_no_request)
    except ImportError as error:
        raise MissingPackageError(
            f"a server needs the package {error.name!r}: pip install 'trident-pyspark[server]'"
        ) from None
    rules.check_names(served.drpc.functions, served.states)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=30,
        http=protocol,
        # Uvicorn would trust the header X-Forwarded-For of any client on this machine.
        proxy_headers=bool(limits.proxies),
        forwarded_allow_ips=list(limits.proxies),
        lifespan="off",
        ws="none",
        **({} if tls is None else tls.uvicorn_options()),
    )
    server = uvicorn.Server(config)
    app.ending = lambda: server.should_exit
    return server


class Server(Ending):
    """A server in a thread of this process. As a context manager, it stops at the end of the block."""

    def __init__(
        self,
        served: Served,
        listening: socket.socket,
        rules: AccessRules,
        limits: Limits,
        tls: TLS | None = None,
    ) -> None:
        self._listening = listening
        self.url = url_of(listening, tls)
        """The address under which the server answers."""
        try:
            self._server = uvicorn_server(served, rules, limits, tls)
        except BaseException:
            listening.close()
            raise
        self._thread = threading.Thread(target=self._run, name="trident-http", daemon=True)
        self._thread.start()
        for _ in range(int(_START_SECONDS / 0.01)):
            if self._server.started or not self._thread.is_alive():
                break
            time.sleep(0.01)
        if not self._server.started:
            raise TopologyError(f"the server at {self.url} did not start; see the log of uvicorn")
        logger.info("topology %r is served at %s", served.name, self.url)

    def _run(self) -> None:
        # uvicorn sets signal handlers only in the main thread; this is another thread.
        with contextlib.closing(self._listening):
            self._server.run(sockets=[self._listening])

    def stop(self) -> None:
        """Stop the server. Requests in flight still get their answers, within 5 seconds."""
        self._server.should_exit = True
        self._thread.join(_STOP_SECONDS)
        if self._thread.is_alive():
            self._server.force_exit = True
            self._thread.join(1.0)

    _end = stop

    def __repr__(self) -> str:
        return f"<Server {self.url}{'' if self._thread.is_alive() else ', stopped'}>"


def serve(
    served: Served,
    port: int,
    host: str,
    token: str | None,
    allowedHosts: Collection[str],
    limits: Limits | None,
    insecure: bool,
    tokens: Mapping[str, Rights] | None = None,
    tls: TLS | None = None,
) -> Server:
    """Start a server of `served`; see ``RunningTopology.serve``."""
    rules = rules_for(host, token, allowedHosts, insecure, tokens, tls)
    return Server(served, bind(host, port), rules, limits or Limits(), tls)
