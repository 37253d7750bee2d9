"""The hash slots of a Redis Cluster: the slot of a command's key, and the server of a slot."""

from binascii import crc_hqx
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trident.base.redis_address import Address

SLOTS = 16384


@lru_cache(maxsize=4096)
def slot_of_tag(tag: bytes) -> int:
    """Return the hash slot of all keys with the given hash tag.

    >>> slot_of_tag(b"123456789")
    12739
    """
    return crc_hqx(tag, 0) % SLOTS


def slot_of(packed: bytes) -> int:
    """Return the hash slot of a packed command, by the hash tag of the first key in it.

    Every key of a state has a hash tag, and in no command of this library is a brace before the first key.
    """
    start = packed.index(b"{") + 1
    return slot_of_tag(packed[start : packed.index(b"}", start)])


@dataclass(frozen=True)
class SlotMap:
    """The server of each hash slot: `masters[i]` holds the slots from `starts[i]` up to `starts[i + 1]`.

    A master of None means that no server holds these slots. A single server holds all slots. `replicas` are servers
    that may become masters.
    """

    starts: tuple[int, ...]
    masters: tuple[Address | None, ...]
    cluster: bool
    replicas: tuple[Address, ...] = ()

    @classmethod
    def of_single_server(cls, server: Address) -> "SlotMap":
        """Return the slot map of a server that is not part of a cluster."""
        return cls((0,), (server,), cluster=False)

    @classmethod
    def from_reply(cls, reply: list[Any], asked: Address) -> "SlotMap":
        """Return the slot map in a reply to CLUSTER SLOTS. A server without a host gets the host of `asked`."""
        starts, masters, replicas, after = list[int](), list[Address | None](), list[Address](), 0
        for first, last, *servers in sorted(reply, key=lambda part: int(part[0])):
            if first > after:
                starts.append(after)
                masters.append(None)
            master, *copies = [
                asked.at(host.decode() if host and host != b"?" else None, int(port)) for host, port, *_ in servers
            ]
            starts.append(int(first))
            masters.append(master)
            replicas += copies
            after = int(last) + 1
        if after < SLOTS:
            starts.append(after)
            masters.append(None)
        return cls(tuple(starts), tuple(masters), True, tuple(dict.fromkeys(replicas)))

    def master_of(self, slot: int) -> Address | None:
        """Return the server that holds a slot; None if no server does."""
        return self.masters[bisect_right(self.starts, slot) - 1]

    @property
    def held(self) -> int:
        """The number of slots that have a master."""
        ends = (*self.starts[1:], SLOTS)
        parts = zip(self.starts, ends, self.masters, strict=True)
        return sum(end - start for start, end, master in parts if master is not None)

    @property
    def servers(self) -> list[Address]:
        """All masters, without duplicates."""
        return list(dict.fromkeys(master for master in self.masters if master is not None))
