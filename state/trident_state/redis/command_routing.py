"""Requests of many commands to wherever their keys are, and the replies in the order of the commands.

A command goes to the server that holds the slot of its first key; a server that stands alone holds them all. Nothing
is ever sent twice by itself but reads.
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
from trident_state.redis.slots import Slots, slot_of
from trident_state.redis.wire import EXEC, MULTI, loads

_T = TypeVar("_T")

_FIRST_PAUSE = 0.005
_LONGEST_PAUSE = 0.1


class Link:
    """A connection to each server that is needed, opened then, and again after a failure. One thread at a time.

    `scripts`: what each server is told when it is connected.
    """

    def __init__(self, servers: Servers, scripts: tuple[Script, ...] = ()) -> None:
        self._servers, self._scripts = servers, scripts
        self._open: dict[Address, Connection] = {}
        self.used = False

    def exchange(self, commands: Iterable[bytes]) -> list[Reply]:
        """Send commands in one go and read a reply for each. A command's error is a reply (`redis.ResponseError`).

        Every command has a key of ours, but MULTI and EXEC around those of one hash tag.
        Raises StateUnavailableError where the outcome is unknown.
        """
        slots = None
        try:
            slots = self._servers.slots()
            taken = self._send(commands, slots)
            replies = [connection.reply() for connection in taken]
        except BaseException:
            self.close()  # what it would read next is the reply to something else
            if slots is not None and slots.cluster:
                self._servers.forget(slots)
            raise
        self.used = True
        if are_elsewhere(replies, inside=slots.cluster):
            self._servers.forget(slots)
            if not slots.cluster:  # it may have joined one, and its name may lead to another server by now
                self.close()
        return replies

    def _send(self, commands: Iterable[bytes], slots: Slots) -> list[Connection]:
        """Send commands, and tell to whom each went."""
        if not slots.cluster:
            only = self._connection(slots.master_of(0), 0)
            return [only] * only.send(commands)
        taken: list[Connection] = []
        last: Connection | None = None
        begins = False
        for packed in commands:
            if packed == MULTI:
                begins = True
            else:
                if packed != EXEC or last is None:
                    slot = slot_of(packed)
                    last = self._connection(slots.master_of(slot), slot)
                if begins:
                    last.add(MULTI)
                    taken.append(last)
                    begins = False
                last.add(packed)
                taken.append(last)
        for connection in dict.fromkeys(taken):
            connection.flush()
        return taken

    def everywhere(self, packed: bytes) -> list[tuple[Address, Reply]]:
        """Send a command without keys to every server."""
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
        """Tell the servers the scripts; a restart forgets them."""
        try:
            for connection in self._open.values():
                self._load(connection)
        except BaseException:
            self.close()
            raise

    def check(self, reply: Reply) -> Reply:
        """The reply, unless it is an error."""
        return check(reply, self._servers.where, self._servers.address)

    def consents(self, reply: Reply) -> bool:
        """Whether a script has done what is only worth trying: not where the server had forgotten it, and is told the
        scripts again, nor where it refused, which whoever writes next is told."""
        if isinstance(reply, redis.exceptions.NoScriptError):
            self.load()
            return False
        return bool(self.check(reply)[0] == b"OK")

    def close(self) -> None:
        """Let go of all connections."""
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
        connection.send([loads(self._scripts)])
        for _ in self._scripts:
            check(connection.reply(), self._servers.where, connection.server)


class Links:
    """Links for readers, apart from the writer's; any thread."""

    def __init__(self, servers: Servers, patience: float = 10.0) -> None:
        self._servers, self._patience = servers, patience
        self._idle: deque[Link] = deque()
        self._closed = False

    def exchange(self, commands: Sequence[bytes], errors: bool = False) -> list[Reply]:
        """Like `Link.exchange`; again on a new connection where one that had been idle is gone, and, for `patience`
        seconds, while a cluster moves the keys from one server to another. A command's error is raised, or with
        `errors` a reply."""
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
        """The reply of every server to a command without keys."""
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
            idled, began = link.used, time.monotonic()
            try:
                replies = ask(link)
            except StateUnavailableError:
                if not idled or time.monotonic() - began > self._patience / 2:  # what is gone fails at once, it hangs
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
        """None of these replies may be an error."""
        check_all(replies, self._servers.where, self._servers.address)

    def forget(self) -> None:
        """Who was asked is not who is to be asked: look again, and connect anew."""
        self._servers.forget()
        self._close_idle()

    def close(self) -> None:
        """Close what is idle now, and whatever comes back later."""
        self._closed = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            with suppress(IndexError):  # another thread took it
                self._idle.pop().close()
