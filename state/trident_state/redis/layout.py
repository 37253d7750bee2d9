"""The layout of a state in the server: the names of its Redis keys.

A group g of a state has one meta hash and a share of the buckets::

    prefix:{topology/state}:m           prefix:{topology/state/g}:m         (with more than one group)
    prefix:{topology/state}:b:<i>       prefix:{topology/state/g}:b:<i>
    prefix:{topology/state}:due         prefix:{topology/state/g}:due       (in a state that keeps due times)

The braces enclose the hash tag, by which a cluster keeps a group on one server. User data never appears in a name. The
number of buckets is fixed when the state is created. Each key of the state is a field of its bucket; the field with the
empty name is the legend (legend.lua).
"""

import re
from dataclasses import dataclass, replace

from trident.base.cached_property import cached_property
from trident.base.errors import TopologyError
from trident_state.redis.wire import bulks
from trident_state.state_shape import StateIdentity

LEGEND = b""
"""The field of a bucket that holds the legend (legend.lua).

It cannot be a key, because no key is encoded as the empty string.
"""

_NAME = re.compile(r"[A-Za-z0-9_.-]+")
PREFIX = re.compile(r"[A-Za-z0-9_.:-]+")


@dataclass(frozen=True)
class Layout:
    """The names of one state's meta hashes and buckets in the server."""

    prefix: str
    identity: StateIdentity
    buckets: int
    groups: int

    def __post_init__(self) -> None:
        names = (self.identity.topology, self.identity.name)
        if not (PREFIX.fullmatch(self.prefix) and all(map(_NAME.fullmatch, names))):
            raise TopologyError(
                f"{self.prefix!r}, {names[0]!r} and {names[1]!r} cannot name a state in Redis: "
                f"letters, digits, '-', '_' and '.' are accepted (and ':' in the prefix)"
            )

    def base(self, group: int) -> str:
        """Return the beginning of the names of a group's meta hash and buckets."""
        tag = f"{self.identity.topology}/{self.identity.name}{'' if self.groups == 1 else f'/{group}'}"
        return f"{self.prefix}:{{{tag}}}"

    def meta(self, group: int) -> bytes:
        """Return the name of the meta hash of a group."""
        return f"{self.base(group)}:m".encode()

    def due(self, group: int) -> bytes:
        """Return the name of the index of due times of a group."""
        return f"{self.base(group)}:due".encode()

    def bucket(self, bucket: int) -> bytes:
        """Return the name of a bucket. `bucket` is its number in the state; its group is `bucket // per_group`."""
        group, number = divmod(bucket, self.per_group)
        return f"{self.base(group)}:b:{number}".encode()

    def buckets_of(self, group: int) -> range:
        """Return the numbers of a group's buckets in the state."""
        return range(group * self.per_group, (group + 1) * self.per_group)

    @property
    def per_group(self) -> int:
        return self.buckets // self.groups

    @cached_property
    def all_metas(self) -> list[bytes]:
        """The names of the meta hashes of all groups."""
        return [self.meta(group) for group in range(self.groups)]

    @cached_property
    def all_buckets(self) -> list[bytes]:
        """The names of the buckets of all groups."""
        return [self.bucket(bucket) for bucket in range(self.buckets)]

    @cached_property
    def packed_metas(self) -> list[bytes]:
        """The names of the meta hashes, packed as arguments of commands."""
        return [bulks([name]) for name in self.all_metas]

    @cached_property
    def packed_dues(self) -> list[bytes]:
        """The names of the indexes of due times, packed as arguments of commands."""
        return [bulks([self.due(group)]) for group in range(self.groups)]

    @cached_property
    def packed_buckets(self) -> list[bytes]:
        """The names of the buckets, packed as arguments of commands."""
        return [bulks([name]) for name in self.all_buckets]

    def other_meta(self) -> bytes:
        """Return the name of the first meta hash with several groups; with one group if the layout has several."""
        return replace(self, groups=2 if self.groups == 1 else 1).meta(0)

    def with_buckets(self, buckets: int) -> "Layout":
        """Return the layout of the same state with `buckets` buckets."""
        return self if buckets == self.buckets else replace(self, buckets=buckets)
