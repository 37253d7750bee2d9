"""Routing: each of many commands goes to the server of its key. The replies are returned in the order of the commands.

A command goes to the server that holds the hash slot of its first key; a single server holds all slots. This module
sends only reads again: the store decides whether a write may be sent again.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Self, TypeVar

from trident.base.errors import StateUnavailableError
from trident.base.forked_child import in_child
from trident.base.redis_address import Address
from trident_state.redis.cluster import Servers
from trident_state.redis.connection import Connection
from trident_state.redis.failures import Reply as Reply
from trident_state.redis.failures import are_elsewhere, are_moving, check, check_all, lack_scripts
from trident_state.redis.hash_slots import SlotMap, slot_of
from trident_state.redis.scripts import Script
from trident_state.redis.wire import EXEC, MULTI, PROCESS, in_full, load_commands

_T = TypeVar("_T")

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1

_KEYLESS = (EXEC, PROCESS)
"""Commands without a key, which go to the server of the command before them."""


class Link:
    """One connection to each server. A Link is used by one thread at a time.

    A connection is opened when needed, or after a failure.

    `scripts` are loaded into a server when the connection to it is opened. Their calls go through `with_scripts`,
    because a server may forget them at any time.
    """

    def __init__(self, servers: Servers, scripts: tuple[Script, ...] = ()) -> None:
        self._servers, self._scripts = servers, scripts
        self._open: dict[Address, Connection] = {}
        self._in_full = False
        self.used = False
        in_child(self, Link.close)

    def exchange(self, commands: Iterable[bytes]) -> list[Reply]:
        """Send all commands before the first reply is read, and return one reply per command.

        If the server answers a command with an error, its reply is that error (`redis.ResponseError`). Every command
        has a key of a state, except for MULTI and EXEC, which surround commands with one hash tag, and PROCESS between
        them. Raises StateUnavailableError if it is not known whether the commands were carried out, and
        ScriptsGoneError if a server has forgotten a script that a command calls.
        """
        with Pipeline(self, self._servers) as pipeline:
            pipeline.send(commands)
            return pipeline.receive()

    def pipeline(self) -> "Pipeline":
        """Return a pipeline for commands that are sent before the replies to earlier ones are read."""
        return Pipeline(self, self._servers)

    def send(self, commands: Iterable[bytes], slots: SlotMap) -> list[Connection]:
        """Send the commands. Return for each command the connection on which its reply arrives."""
        if not slots.cluster:
            only = self._connection(slots.master_of(0), 0)
            return [only] * only.send(map(self._formed, commands))
        targets: list[Connection] = []
        last: Connection | None = None
        multi_waits = False  # MULTI has no key: it goes to the server of the command after it
        for packed in commands:
            if packed == MULTI:
                multi_waits = True
            else:
                if packed not in _KEYLESS or last is None:
                    slot = slot_of(packed)
                    last = self._connection(slots.master_of(slot), slot)
                if multi_waits:
                    last.add(MULTI)
                    targets.append(last)
                    multi_waits = False
                last.add(self._formed(packed))
                targets.append(last)
        for connection in dict.fromkeys(targets):
            connection.flush()
        return targets

    def _formed(self, packed: bytes) -> bytes:
        return in_full(packed, self._scripts) if self._in_full else packed

    def with_scripts(self, attempt: Callable[[], _T]) -> _T:
        """Return the result of `attempt`, which calls scripts and may be repeated as a whole.

        If a server has forgotten the scripts, after a restart or a SCRIPT FLUSH, they are loaded and the attempt is
        repeated. If it has forgotten them again by then, the calls of the last attempt contain the scripts.
        """
        with suppress(ScriptsGoneError):
            return attempt()
        self.load()
        with suppress(ScriptsGoneError):
            return attempt()
        self._in_full = True
        try:
            return attempt()
        finally:
            self._in_full = False

    def call_scripts(self, calls: Sequence[bytes]) -> list[Reply]:
        """Send calls of scripts that may be sent again, and return one reply per call; see `exchange`."""
        return self.with_scripts(lambda: self.exchange(calls))

    def everywhere(self, packed: bytes) -> list[tuple[Address, Reply]]:
        """Send a command without keys to every server, and return all replies."""
        slots = self._servers.slots()
        try:
            replies = [(server, self._connection(server, 0).ask(packed)[0]) for server in slots.servers]
        except BaseException:
            self.close()
            self._servers.forget(slots)
            raise
        self.used = True
        return replies

    def load(self) -> None:
        """Load the scripts into all connected servers again, because a restarted server has forgotten them."""
        try:
            for connection in self._open.values():
                self._load(connection)
        except BaseException:
            self.close()
            raise

    def check(self, reply: Reply) -> Reply:
        """Return a reply, or raise the state's error for it if the reply is an error."""
        return check(reply, self._servers.where, self._servers.address)

    def succeeded(self, reply: Reply) -> bool:
        """Return whether the reply says that a script has succeeded. For scripts with work that can also be done later.

        The result is False if the script refused; the next write then raises the reason. An error of the server is
        raised.
        """
        return bool(self.check(reply)[0] == b"OK")

    def close(self) -> None:
        """Close all connections."""
        opened, self._open, self.used = self._open, {}, False
        for connection in opened.values():
            connection.close()

    def _connection(self, server: Address | None, slot: int) -> Connection:
        if server is None:
            raise StateUnavailableError(
                f"{self._servers.where}: no server of the cluster at {self._servers.address.shown} serves slot "
                f"{slot} at the moment; commits wait for one"
            )
        connection = self._open.get(server)
        if connection is None:
            connection = self._open[server] = Connection(server, self._servers.where)
            if self._scripts:
                self._load(connection)
        return connection

    def _load(self, connection: Connection) -> None:
        connection.send([load_commands(self._scripts)])
        for _ in self._scripts:
            check(connection.reply(), self._servers.where, connection.server)


class ScriptsGoneError(StateUnavailableError):
    """A server has forgotten the scripts: it was restarted, or another client sent SCRIPT FLUSH."""


class Pipeline:
    """Several sends over one link. Each `receive` returns the replies to the earliest send that has not been received.

    Used in a ``with`` block. An error in the block closes the connections, because a later command would get a reply to
    one of these; `Link.exchange` says which errors the methods raise.
    """

    def __init__(self, link: Link, servers: Servers) -> None:
        self._link, self._servers = link, servers
        self._slots: SlotMap | None = None
        self._sent: deque[list[Connection]] = deque()

    def __enter__(self) -> Self:
        return self

    def send(self, commands: Iterable[bytes]) -> None:
        """Send commands, and do not wait for their replies."""
        self._slots = self._servers.slots()
        self._sent.append(self._link.send(commands, self._slots))

    def receive(self) -> list[Reply]:
        """Return one reply for each command of the earliest send."""
        slots, servers = self._slots, self._servers
        assert slots is not None
        replies = [connection.reply() for connection in self._sent[0]]
        self._sent.popleft()
        self._link.used = True
        if are_elsewhere(replies, inside=slots.cluster):
            servers.forget(slots)
            if not slots.cluster:  # the server may have joined a cluster, or its name may resolve to another server now
                self._link.close()
        if lack_scripts(replies):
            raise ScriptsGoneError(
                f"{servers.where}: the server at {servers.address.shown} has lost the library's scripts"
            )
        return replies

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is not None and (self._sent or not isinstance(error, ScriptsGoneError)):
            self._link.close()
            if self._slots is not None and self._slots.cluster:
                self._servers.forget(self._slots)


class Links:
    """A pool of links for readers. Any thread may use it; the writer has a separate link."""

    def __init__(self, servers: Servers, patience: float = 10.0) -> None:
        self._servers, self._patience = servers, patience
        self._idle: deque[Link] = deque()
        self._closed = False

    def exchange(self, commands: Sequence[bytes], errors: bool = False) -> list[Reply]:
        """Send commands that only read, and return one reply per command, like `Link.exchange`.

        The commands are sent again if the connection was closed while it was idle, and, for at most `patience` seconds,
        while a cluster moves their keys from one server to another. If a reply is an error, the first such error is
        raised, or with `errors` returned in its place.
        """
        until, pause = time.monotonic() + self._patience, _FIRST_PAUSE
        while True:
            replies = self._attempt(lambda link: link.exchange(commands))
            if not are_moving(replies, inside=self._servers.cluster) or time.monotonic() > until:
                break
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        if not errors:
            self.check_all(replies)
        return replies

    def everywhere(self, packed: bytes) -> list[tuple[Address, Reply]]:
        """Send a command without keys to every server, and return all replies. Raises the first error among them."""
        replies = self._attempt(lambda link: link.everywhere(packed))
        for server, reply in replies:
            check(reply, self._servers.where, server)
        return replies

    def _attempt(self, ask: Callable[[Link], list[_T]]) -> list[_T]:
        try:
            link = self._idle.pop()
        except IndexError:
            link = Link(self._servers)
        try:
            was_idle, began = link.used, time.monotonic()
            try:
                replies = ask(link)
            except StateUnavailableError:
                # a connection that was closed while idle fails at once; if it failed late, the server hangs
                if not was_idle or time.monotonic() - began > self._patience / 2:
                    raise
                replies = ask(link)
        except BaseException:
            link.close()
            raise
        self._idle.append(link)
        if self._closed:
            self.close()
        return replies

    def check_all(self, replies: Iterable[Reply]) -> None:
        """Raise the state's error for the first reply that is an error."""
        check_all(replies, self._servers.where, self._servers.address)

    def forget(self) -> None:
        """Query the servers again, and reconnect, because the address now leads to other servers."""
        self._servers.forget()
        self._close_idle()

    def close(self) -> None:
        """Close the idle connections now, and each connection in use when its thread returns it."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):  # another thread took the last link
                self._idle.pop().close()
