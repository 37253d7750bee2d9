"""The hash slots of a Redis Cluster: the slot of a command, and the server of a slot."""

from binascii import crc_hqx
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trident_state.redis.address import Address

SLOTS = 16384


@lru_cache(maxsize=4096)
def slot_of_tag(tag: bytes) -> int:
    """Return the slot of all keys with this hash tag.

    >>> slot_of_tag(b"123456789")
    12739
    """
    return crc_hqx(tag, 0) % SLOTS


def slot_of(packed: bytes) -> int:
    """Return the slot of a packed command, by the hash tag of its first key.

    Every key of ours has a hash tag, and no command holds a brace before it.
    """
    start = packed.index(b"{") + 1
    return slot_of_tag(packed[start : packed.index(b"}", start)])


@dataclass(frozen=True)
class SlotMap:
    """The server of each slot: `masters[i]` holds those from `starts[i]` up to the next start; None: no server does.

    A single server holds all slots. `replicas`: servers that may become masters.
    """

    starts: tuple[int, ...]
    masters: tuple[Address | None, ...]
    cluster: bool
    replicas: tuple[Address, ...] = ()

    @classmethod
    def of_single_server(cls, server: Address) -> "SlotMap":
        """Return the map of a server that is not part of a cluster."""
        return cls((0,), (server,), cluster=False)

    @classmethod
    def from_reply(cls, reply: list[Any], asked: Address) -> "SlotMap":
        """Return the map of a reply to CLUSTER SLOTS; a server without a host in it is the one that was asked."""
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
        """Return the server that holds a slot."""
        return self.masters[bisect_right(self.starts, slot) - 1]

    @property
    def held(self) -> int:
        """The number of slots that have a master."""
        ends = (*self.starts[1:], SLOTS)
        parts = zip(self.starts, ends, self.masters, strict=True)
        return sum(end - start for start, end, master in parts if master is not None)

    @property
    def servers(self) -> list[Address]:
        """All masters, each once."""
        return list(dict.fromkeys(master for master in self.masters if master is not None))
