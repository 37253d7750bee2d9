"""The check that another process than the driver reaches the very state of the driver."""

from trident.base.attempt import Lease
from trident.base.errors import StateError
from trident.base.redis_address import Address
from trident_state.checks import fenced_error
from trident_state.redis.cluster import Servers
from trident_state.redis.command_routing import Link
from trident_state.redis.layout import Layout
from trident_state.redis.wire import command


def check_reached(address: Address, where: str, layout: Layout, lease: Lease) -> None:
    """Raise StateUnavailableError or StateError if this process does not reach the state that `lease` holds."""
    link = Link(Servers(address, where))
    try:
        meta = layout.meta(0)
        token, epoch = link.check(link.exchange([command(b"HMGET", meta, b"token", b"epoch")])[0])
    finally:
        link.close()
    if (token, epoch) == (lease.token.encode(), b"%d" % lease.epoch):
        return
    if epoch is not None and int(epoch) > lease.epoch:
        raise fenced_error(where, epoch.decode(), lease)
    raise StateError(
        f"{where}: a Spark worker finds at {address.shown} another server than the driver: this driver "
        f"does not hold what is there. Give an address that leads to one server from every machine, not localhost"
    )
