"""The servers behind an address: one, or the masters of a Redis Cluster."""

import threading
from contextlib import closing

from trident.base.errors import StateError, StateUnavailableError
from trident_state.redis.address import Address
from trident_state.redis.connection import Connection
from trident_state.redis.failures import check
from trident_state.redis.server import parse_info
from trident_state.redis.slots import SLOTS, SlotMap
from trident_state.redis.wire import command


class Servers:
    """The servers behind an address; it asks them for their slots when needed, and again after a cluster has changed.

    Any thread. `where` begins every error's message.
    """

    def __init__(self, address: Address, where: str) -> None:
        self.address, self.where = address, where
        self._lock = threading.Lock()
        self._slots: SlotMap | None = None
        self._known: list[Address] = []

    @property
    def cluster(self) -> bool:
        """Whether they were a cluster when they were last asked."""
        return bool(self._known)

    def slots(self) -> SlotMap:
        """Return the server of each slot; raises StateUnavailableError where none of the servers answers."""
        if (known := self._slots) is not None:
            return known
        with self._lock:
            if (known := self._slots) is None:
                known = self._slots = self._learn()
                self._known = [*known.servers, *known.replicas] if known.cluster else []
            return known

    def forget(self, slots: SlotMap | None = None) -> None:
        """Ask the servers again next time, unless other slots than these are known by now.

        Takes no lock: another thread may hold it while it asks a server that hangs.
        """
        if slots is None or slots is self._slots:
            self._slots = None

    def _learn(self) -> SlotMap:
        """Ask the servers of the url, then the known ones of the cluster, until one knows a master for every slot.

        A server that was taken out of the cluster, or lost its view of it, knows no other server.
        """
        answers: list[SlotMap] = []
        first_error: StateUnavailableError | None = None
        for server in dict.fromkeys([*self._seeds(), *self._known]):
            try:
                answers.append(self._ask(server))
            except StateUnavailableError as error:
                first_error = first_error or error
                continue
            if answers[-1].held == SLOTS:
                return answers[-1]
        if not answers:
            assert first_error is not None
            raise first_error
        return max(answers, key=lambda slots: slots.held)

    def _seeds(self) -> list[Address]:
        try:
            return self.address.seeds()
        except ValueError as error:
            raise StateError(f"{self.where}: {error}") from error

    def _ask(self, server: Address) -> SlotMap:
        with closing(Connection(server, self.where)) as connection:
            info = check(connection.ask(command(b"INFO"))[0], self.where, server)
            if parse_info(info).get("cluster_enabled") != "1":
                return SlotMap.of_single_server(server)
            reply = check(connection.ask(command(b"CLUSTER", b"SLOTS"))[0], self.where, server)
            return SlotMap.from_reply(reply, server)
