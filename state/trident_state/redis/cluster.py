"""Which servers there are: one, or the masters of a Redis Cluster."""

import threading
from contextlib import closing

from trident.base.errors import StateError, StateUnavailableError
from trident_state.redis.address import Address
from trident_state.redis.connection import Connection
from trident_state.redis.failures import check
from trident_state.redis.server import parse_info
from trident_state.redis.slots import SLOTS, Slots
from trident_state.redis.wire import command


class Servers:
    """What an address leads to. Learned when it is first asked for, and again after a cluster has changed.

    Any thread. `where` begins every error's message.
    """

    def __init__(self, address: Address, where: str) -> None:
        self.address, self.where = address, where
        self._lock = threading.Lock()
        self._slots: Slots | None = None
        self._known: list[Address] = []

    @property
    def cluster(self) -> bool:
        """Whether they were a cluster when we looked last."""
        return bool(self._known)

    def slots(self) -> Slots:
        """Who holds which slot. Raises StateUnavailableError where none of the servers answers."""
        if (known := self._slots) is not None:
            return known
        with self._lock:
            if (known := self._slots) is None:
                known = self._slots = self._learn()
                self._known = [*known.servers, *known.replicas] if known.cluster else []
            return known

    def forget(self, slots: Slots | None = None) -> None:
        """What was known is no longer so: ask again next time. Waits for nobody who is asking a server that hangs."""
        if slots is None or slots is self._slots:
            self._slots = None

    def _learn(self) -> Slots:
        """Ask the servers of the url, then those of the cluster when we looked last, until one knows a master for every
        slot: one that was taken out of the cluster, or lost what it knew of it, knows of no other server."""
        told: list[Slots] = []
        first: StateUnavailableError | None = None
        for server in dict.fromkeys([*self._seeds(), *self._known]):
            try:
                told.append(self._told_by(server))
            except StateUnavailableError as error:
                first = first or error
                continue
            if told[-1].held == SLOTS:
                return told[-1]
        if not told:
            assert first is not None
            raise first
        return max(told, key=lambda slots: slots.held)

    def _seeds(self) -> list[Address]:
        try:
            return self.address.seeds()
        except ValueError as error:
            raise StateError(f"{self.where}: {error}") from error

    def _told_by(self, server: Address) -> Slots:
        with closing(Connection(server, self.where)) as connection:
            info = check(connection.ask(command(b"INFO"))[0], self.where, server)
            if parse_info(info).get("cluster_enabled") != "1":
                return Slots.alone(server)
            return Slots.told(check(connection.ask(command(b"CLUSTER", b"SLOTS"))[0], self.where, server), server)
