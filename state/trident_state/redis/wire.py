"""Packing of commands into the bytes that go to the server (RESP); redis-py would take 5 to 10 us per command."""

from collections.abc import Iterable, Sequence
from functools import cache

import pyarrow as pa

from trident_state.binary_arrays import Offsets, buffers_of, join_columns, lengths_of
from trident_state.redis.scripts import Script

PACKET = 65536
"""The number of waiting bytes from which a system call to send them is worth its cost."""


def command(*parts: bytes) -> bytes:
    """Return a command as packed bytes, from its name and arguments."""
    return b"*%d\r\n" % len(parts) + bulks(parts)


def bulks(parts: Iterable[bytes]) -> bytes:
    """Return the given arguments of a command as packed bytes, without the head of the command."""
    return b"".join([b"$%d\r\n%b\r\n" % (len(part), part) for part in parts])


MULTI, EXEC = command(b"MULTI"), command(b"EXEC")
PROCESS = command(b"INFO", b"server")
"""The command whose reply names the server process (``run_id``). Inside a transaction it needs no key."""


@cache
def load_commands(scripts: tuple[Script, ...]) -> bytes:
    """Return the packed commands that load the given scripts into a server."""
    return b"".join([command(b"SCRIPT", b"LOAD", script.source) for script in scripts])


def call(script: Script, keys: Sequence[bytes], *args: bytes) -> bytes:
    """Return the packed command that calls a script. Each of the `keys` is already packed (by `bulks`)."""
    head = b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n" % (3 + len(keys) + len(args), script.sha)
    return b"".join([head, bulks([b"%d" % len(keys)]), *keys, bulks(args)])


_BY_HASH = bulks([b"EVALSHA"])


def in_full(packed: bytes, scripts: Iterable[Script]) -> bytes:
    """Return a packed call of a script with the script's text in place of its hash; any other command as it is."""
    count, _, rest = packed.partition(b"\r\n")
    if not rest.startswith(_BY_HASH):
        return packed
    start = len(_BY_HASH) + len(b"$40\r\n")
    sha, after = rest[start : start + 40], rest[start + 42 :]
    (source,) = (script.source for script in scripts if script.sha == sha)
    return b"".join([count, b"\r\n", bulks([b"EVAL", source]), after])


def hmget(name: bytes, fields: bytes, count: int) -> bytes:
    """Return the command that reads `count` fields of a hash. The name and the fields are already packed."""
    return b"".join([b"*%d\r\n$5\r\nHMGET\r\n" % (2 + count), name, fields])


class Blob:
    """A column of values as one run of bytes. Slices of its rows become arguments of script calls.

    Each value is preceded by its length, so that a script can read the many values in an argument.
    """

    def __init__(self, framed: pa.Array) -> None:
        data, self._cuts = buffers_of(framed)
        self._data = data.tobytes()

    @property
    def ends(self) -> Offsets:
        """For each value the number of bytes from the beginning of the column to the value's end."""
        return self._cuts[1:]

    def __getitem__(self, rows: slice) -> bytes:
        return self._data[self._cuts[rows.start] : self._cuts[rows.stop]]


class Arguments(Blob):
    """A column of arguments for commands, packed as one run of bytes. Commands take slices of its rows."""

    def __init__(self, values: pa.Array) -> None:
        lengths = pa.array(lengths_of(values)).cast(pa.string()).cast(pa.binary())
        super().__init__(join_columns(b"$", lengths, b"\r\n", values, b"\r\n"))
