"""The scan of buckets: each is read with HSCAN, in as many requests as it needs."""

import re
from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from trident.base.errors import StateError
from trident_state.redis.command_routing import Reply
from trident_state.redis.layout import LEGEND, Layout
from trident_state.redis.wire import PROCESS, bulks

_COUNT = 1000
_START = b"0"
"""The cursor that begins a bucket. In a reply, it means that the bucket was read to its end."""

_RUN_ID = re.compile(rb"^run_id:(\w+)", re.MULTILINE)


class Place(NamedTuple):
    """The place in a bucket at which its next HSCAN continues."""

    bucket: int
    cursor: bytes = _START
    process: bytes | None = None
    """The server process that returned the cursor."""


class BucketScans:
    """The buckets that a scan has not read to their ends.

    A cursor is a position in the hash table of one server process. Another process (after a restart, a failover, or a
    slot migration) orders fields differently, and would silently skip some. So a cursor is valid only for the process
    that returned it. If another process answers, the bucket is read again from its beginning, without the fields that
    were already returned; their names are kept while a bucket is read in pieces.
    """

    def __init__(self, where: str, layout: Layout, buckets: Iterable[int]) -> None:
        self._where, self._layout = where, layout
        self._waiting = deque(map(Place, buckets))
        self._seen: dict[int, set[bytes]] = {}

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def take(self, most: int) -> list[Place]:
        """Return the next places, at most one for each of `most` buckets. `entries` needs all of them."""
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), most))]

    def reads(self, places: list[Place]) -> list[tuple[int, bytes]]:
        """Return the reads for these places; see `Reader.snapshot`.

        Each group is also asked for its process, in the same transaction.
        """
        scans = [(place.bucket, _hscan(self._layout.packed_buckets[place.bucket], place.cursor)) for place in places]
        return scans + [(self._layout.buckets_of(group)[0], PROCESS) for group in self._groups(places)]

    def entries(self, places: list[Place], replies: list[Reply]) -> list[tuple[int, list[tuple[bytes, bytes]]]]:
        """Return the fields and values of each bucket from the replies to `reads`, and queue the rest of the bucket."""
        named = replies[len(places) :]
        processes = {group: _RUN_ID.search(info) for group, info in zip(self._groups(places), named, strict=True)}
        found = []
        for place, (following, content) in zip(places, replies, strict=False):
            process = processes[place.bucket // self._layout.per_group]
            found.append((place.bucket, self._new_entries(place, process and process[1], following, content)))
        return found

    def _groups(self, places: list[Place]) -> list[int]:
        return list(dict.fromkeys(place.bucket // self._layout.per_group for place in places))

    def _new_entries(
        self, place: Place, process: bytes | None, following: bytes, content: list[bytes]
    ) -> list[tuple[bytes, bytes]]:
        bucket = place.bucket
        if place.cursor != _START and place.process != process:
            self._waiting.appendleft(Place(bucket))
            return []
        pairs = [pair for pair in zip(content[::2], content[1::2], strict=True) if pair[0] != LEGEND]
        if following != _START:
            if process is None:
                raise StateError(f"{self._where}: the server has no run_id in its INFO, so a scan could miss keys")
            self._waiting.appendleft(Place(bucket, following, process))
            seen = self._seen.setdefault(bucket, set())
        elif bucket in self._seen:
            seen = self._seen.pop(bucket)
        else:
            return pairs  # a bucket returned in one reply has each field once
        # HSCAN may return a field twice if it reads a hash in pieces.
        pairs = [pair for pair in dict(pairs).items() if pair[0] not in seen]
        seen.update(field for field, _ in pairs)
        return pairs


def _hscan(name: bytes, cursor: bytes) -> bytes:
    tail = bulks([cursor, b"COUNT", b"%d" % _COUNT])
    return b"".join([b"*5\r\n$5\r\nHSCAN\r\n", name, tail])
