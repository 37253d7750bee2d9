"""Routing of many commands to the servers of their keys; the replies come in the order of the commands.

A command goes to the server that holds the slot of its first key; a single server holds all slots. Only reads are sent
again by this module: whether a write may be sent again is for the store to decide.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TypeVar

import redis

from trident.base.errors import StateUnavailableError
from trident_state.redis.address import Address
from trident_state.redis.cluster import Servers
from trident_state.redis.connection import Connection
from trident_state.redis.failures import Reply as Reply
from trident_state.redis.failures import are_elsewhere, are_moving, check, check_all
from trident_state.redis.scripts import Script
from trident_state.redis.slots import SlotMap, slot_of
from trident_state.redis.wire import EXEC, MULTI, load_commands

_T = TypeVar("_T")

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1


class Link:
    """A connection to each server, opened when it is first needed and again after a failure. One thread at a time.

    `scripts` are loaded into each server when it is connected.
    """

    def __init__(self, servers: Servers, scripts: tuple[Script, ...] = ()) -> None:
        self._servers, self._scripts = servers, scripts
        self._open: dict[Address, Connection] = {}
        self.used = False

    def exchange(self, commands: Iterable[bytes]) -> list[Reply]:
        """Send commands in one go and return a reply for each. A command's error is a reply (`redis.ResponseError`).

        Every command has a key of ours, except for MULTI and EXEC around commands of one hash tag.
        Raises StateUnavailableError where the outcome is unknown.
        """
        slots = None
        try:
            slots = self._servers.slots()
            targets = self._send(commands, slots)
            replies = [connection.reply() for connection in targets]
        except BaseException:
            self.close()  # the next reply to be read would be that of another command
            if slots is not None and slots.cluster:
                self._servers.forget(slots)
            raise
        self.used = True
        if are_elsewhere(replies, inside=slots.cluster):
            self._servers.forget(slots)
            if not slots.cluster:  # the server may have joined one, or its name may lead to another server by now
                self.close()
        return replies

    def _send(self, commands: Iterable[bytes], slots: SlotMap) -> list[Connection]:
        """Send commands, and return the connection of each."""
        if not slots.cluster:
            only = self._connection(slots.master_of(0), 0)
            return [only] * only.send(commands)
        targets: list[Connection] = []
        last: Connection | None = None
        multi_waits = False  # MULTI has no key: it goes where the command after it goes
        for packed in commands:
            if packed == MULTI:
                multi_waits = True
            else:
                if packed != EXEC or last is None:
                    slot = slot_of(packed)
                    last = self._connection(slots.master_of(slot), slot)
                if multi_waits:
                    last.add(MULTI)
                    targets.append(last)
                    multi_waits = False
                last.add(packed)
                targets.append(last)
        for connection in dict.fromkeys(targets):
            connection.flush()
        return targets

    def everywhere(self, packed: bytes) -> list[tuple[Address, Reply]]:
        """Send a command without keys to every server, and return the reply of each."""
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
        """Load the scripts into the connected servers; a server forgets them when it restarts."""
        try:
            for connection in self._open.values():
                self._load(connection)
        except BaseException:
            self.close()
            raise

    def check(self, reply: Reply) -> Reply:
        """Return the reply; raise the error that it is, if it is one."""
        return check(reply, self._servers.where, self._servers.address)

    def succeeded(self, reply: Reply) -> bool:
        """Return whether a script has done work that may as well be done later.

        It has not if the server had forgotten the script, which is loaded again here, or if the script refused; then
        the next write gets the reason.
        """
        if isinstance(reply, redis.exceptions.NoScriptError):
            self.load()
            return False
        return bool(self.check(reply)[0] == b"OK")

    def close(self) -> None:
        """Close all connections."""
        opened, self._open, self.used = self._open, {}, False
        for connection in opened.values():
            connection.close()

    def _connection(self, server: Address | None, slot: int) -> Connection:
        if server is None:
            raise StateUnavailableError(
                f"{self._servers.where}: no server of the cluster at {self._servers.address.shown} holds slot {slot} "
                f"just now; commits wait for one"
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


class Links:
    """A pool of `Link` for readers, apart from the writer's; any thread."""

    def __init__(self, servers: Servers, patience: float = 10.0) -> None:
        self._servers, self._patience = servers, patience
        self._idle: deque[Link] = deque()
        self._closed = False

    def exchange(self, commands: Sequence[bytes], errors: bool = False) -> list[Reply]:
        """Send commands and return a reply for each, like `Link.exchange`; retry reads.

        It tries again on a new connection where an idle one has been closed, and for `patience` seconds while a
        cluster moves the keys from one server to another. A command's error is raised, or with `errors` returned.
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
        """Send a command without keys to every server, and return the reply of each."""
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
                # a connection that was closed fails at once; one that took long reached a server that hangs
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
        """Raise the first error among these replies."""
        check_all(replies, self._servers.where, self._servers.address)

    def forget(self) -> None:
        """Ask for the servers again, and connect anew: they are not those of the address any more."""
        self._servers.forget()
        self._close_idle()

    def close(self) -> None:
        """Close the idle connections, and those in use when they come back."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):  # another thread took it
                self._idle.pop().close()
