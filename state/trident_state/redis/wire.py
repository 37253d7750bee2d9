"""Commands as the bytes that go to the server (RESP), packed by hand: redis-py takes 5 to 10 us for each."""

from collections.abc import Iterable, Sequence
from functools import cache

import pyarrow as pa

from trident_state.binary import Offsets, buffers_of, joined, lengths_of
from trident_state.redis.scripts import Script

PACKET = 65536
"""Bytes that are worth a system call."""


def command(*parts: bytes) -> bytes:
    """One command."""
    return b"*%d\r\n" % len(parts) + bulks(parts)


def bulks(parts: Iterable[bytes]) -> bytes:
    """The arguments of a command, without its head."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


MULTI, EXEC = command(b"MULTI"), command(b"EXEC")


@cache
def loads(scripts: tuple[Script, ...]) -> bytes:
    """The commands that tell a server these scripts."""
    return b"".join([command(b"SCRIPT", b"LOAD", script.source) for script in scripts])


def call(script: Script, keys: Sequence[bytes], *args: bytes) -> bytes:
    """A call of a script; `keys` are packed already (`bulks`), one a key."""
    head = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (3 + len(keys) + len(args), script.sha)
    return b"".join([head, bulks([b"%d" % len(keys)]), *keys, bulks(args)])


def hmget(name: bytes, fields: bytes, count: int) -> bytes:
    """Read so many fields of a hash; name and fields are packed already."""
    return b"".join([b"*%d\r\n$5\r\nHMGET\r\n" % (2 + count), name, fields])


class Blob:
    """A column of values as scripts read many at once, each with its length before it; slices of it are arguments."""

    def __init__(self, framed: pa.Array) -> None:
        data, self._cuts = buffers_of(framed)
        self._data = data.tobytes()

    @property
    def ends(self) -> Offsets:
        """How many bytes end with each value."""
        return self._cuts[1:]

    def __getitem__(self, rows: slice) -> bytes:
        return self._data[self._cuts[rows.start] : self._cuts[rows.stop]]


class Arguments(Blob):
    """A column of arguments, packed once, of which commands take slices."""

    def __init__(self, values: pa.Array) -> None:
        lengths = pa.array(lengths_of(values)).cast(pa.string()).cast(pa.binary())
        super().__init__(joined(b"$", lengths, b"\r\n", values, b"\r\n"))
