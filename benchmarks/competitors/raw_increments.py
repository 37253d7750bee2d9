"""The time of the server's own counters: HINCRBY, in as many hashes as a state has."""

from collections.abc import Sequence
from zlib import crc32

from benchmarks.competitors.raw_socket import raw_seconds

HASHES = 1_024


def raw_increments(port: int, words: Sequence[str]) -> float:
    """Return the seconds that one HINCRBY for each word takes."""
    return raw_seconds(port, [_increment(word.encode()) for word in words], b":")


def _increment(word: bytes) -> bytes:
    name = b"counts:%d" % (crc32(word) % HASHES)
    return b"*4\r\n$7\r\nHINCRBY\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n$1\r\n1\r\n" % (len(name), name, len(word), word)
