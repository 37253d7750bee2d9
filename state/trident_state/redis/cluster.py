"""The servers of an address: a single server, or the masters of a Redis Cluster."""

import threading
from contextlib import closing

from trident.base.errors import StateError, StateUnavailableError
from trident.base.forked_child import free_in_child
from trident.base.redis_address import Address
from trident_state.redis.connection import Connection
from trident_state.redis.failures import check
from trident_state.redis.hash_slots import SLOTS, SlotMap
from trident_state.redis.server_check import parse_info
from trident_state.redis.wire import command


class Servers:
    """The servers of an address, with the hash slots that each of them holds.

    The servers' slots are requested when they are first needed, and again after `forget`. Any thread may call. `where`
    begins the message of every error.
    """

    def __init__(self, address: Address, where: str) -> None:
        self.address, self.where = address, where
        self._lock = free_in_child(threading.Lock())
        self._slots: SlotMap | None = None
        self._known: list[Address] = []

    @property
    def cluster(self) -> bool:
        """Return whether the servers were a cluster when they last answered."""
        return bool(self._known)

    def slots(self) -> SlotMap:
        """Return the server of each hash slot. Raises StateUnavailableError if none of the servers answers."""
        if (known := self._slots) is not None:
            return known
        with self._lock:
            if (known := self._slots) is None:
                known = self._slots = self._learn()
                self._known = [*known.servers, *known.replicas] if known.cluster else []
            return known

    def forget(self, slots: SlotMap | None = None) -> None:
        """Make the next call of `slots` query the servers again, unless another thread has updated the slots meanwhile.

        This method takes no lock, because another thread may hold the lock while it waits for a hanging server.
        """
        if slots is None or slots is self._slots:
            self._slots = None

    def _learn(self) -> SlotMap:
        """Ask the servers in the url, then all known servers, until one knows a master for every hash slot.

        If no server knows all masters, return the answer with the most slots. The first server may not know the others:
        it may have been removed from the cluster, or have lost its list of servers.
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
