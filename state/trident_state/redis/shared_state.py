"""The part of a state that processes other than its driver need to reach it."""

from dataclasses import dataclass

from trident.base.attempt import Lease
from trident.base.errors import StateError
from trident.base.redis_address import Address
from trident_state.incarnation import Incarnation
from trident_state.records.forms import Records, ValueForm, records_of
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Link
from trident_state.redis.layout import Layout
from trident_state.redis.meta import parse_meta, read_meta
from trident_state.state_shape import StateKind, StateShape
from trident_state.write_checks import fenced_error


@dataclass(frozen=True)
class SharedState:
    """The data that a process needs to reach a state that a driver holds under `lease`.

    `lease` is None for a state of another topology. Such a state is only read, because the driver that holds it may
    change; `incarnation` identifies the state.

    The address may hold a password: check `RedisMapState.sendable` before you send it to another process.
    """

    address: Address
    where: str
    shape: StateShape
    kind: StateKind
    form: ValueForm
    layout: Layout
    lease: Lease | None
    incarnation: Incarnation | None

    @property
    def records(self) -> Records:
        """The form of the state's records, which include a txid."""
        return records_of(self.shape.value, self.form, bare=False)

    def check_reached(self) -> None:
        """Raise StateUnavailableError or StateError if this process does not reach the state that the driver uses."""
        link = Link(Servers(self.address, self.where))
        try:
            meta = parse_meta(link.check(link.exchange([read_meta(self.layout.packed_metas[0])])[0]))
        finally:
            link.close()
        held = meta.status(self.where).lease
        if self.lease is None:
            if meta.incarnation(self.where) == self.incarnation:
                return
        elif held == self.lease:
            return
        elif held is not None and held.epoch > self.lease.epoch:
            raise fenced_error(self.where, str(held.epoch), self.lease)
        raise StateError(
            f"{self.where}: at {self.address.shown} a Spark worker reaches a different server from the driver. Give an "
            f"address that leads to the same server from every machine, not localhost"
        )
