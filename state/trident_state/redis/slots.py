"""The slots of a Redis Cluster: which one a command belongs to, and which server holds it."""

from binascii import crc_hqx
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from trident_state.redis.address import Address

SLOTS = 16384


@lru_cache(maxsize=4096)
def slot_of_tag(tag: bytes) -> int:
    """The slot of all keys with this hash tag.

    >>> slot_of_tag(b"123456789")
    12739
    """
    return crc_hqx(tag, 0) % SLOTS


def slot_of(packed: bytes) -> int:
    """The slot of a packed command, from the hash tag of its first key: every key of ours has one, and no command
    holds a brace before it."""
    start = packed.index(b"{") + 1
    return slot_of_tag(packed[start : packed.index(b"}", start)])


@dataclass(frozen=True)
class Slots:
    """Which server holds which slot: `masters[i]` those from `starts[i]` up to the next start, None nobody.

    A server that stands alone holds all of them. `replicas`: who may be a master later.
    """

    starts: tuple[int, ...]
    masters: tuple[Address | None, ...]
    cluster: bool
    replicas: tuple[Address, ...] = ()

    @classmethod
    def alone(cls, server: Address) -> "Slots":
        """One server for everything."""
        return cls((0,), (server,), cluster=False)

    @classmethod
    def told(cls, reply: list[Any], teller: Address) -> "Slots":
        """What CLUSTER SLOTS answered. A server without a host is the one that was asked."""
        starts, masters, replicas, after = list[int](), list[Address | None](), list[Address](), 0
        for first, last, *servers in sorted(reply, key=lambda part: int(part[0])):
            if first > after:
                starts.append(after)
                masters.append(None)
            master, *copies = [
                teller.at(host.decode() if host and host != b"?" else None, int(port)) for host, port, *_ in servers
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
        """Who holds a slot."""
        return self.masters[bisect_right(self.starts, slot) - 1]

    @property
    def held(self) -> int:
        """How many slots have a master."""
        ends = (*self.starts[1:], SLOTS)
        parts = zip(self.starts, ends, self.masters, strict=True)
        return sum(end - start for start, end, master in parts if master is not None)

    @property
    def servers(self) -> list[Address]:
        """Every master once."""
        return list(dict.fromkeys(master for master in self.masters if master is not None))
