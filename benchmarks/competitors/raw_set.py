"""What the server gives at best: SET of 24-byte values.

The same as ``redis-benchmark -t set -P 1000 -c 1 -r 1000000 -d 24``, made here because not every server brings it.
"""

import random

from benchmarks.competitors.raw_socket import raw_seconds

VALUE = b"x" * 24


def raw_set(port: int, commands: int, keyspace: int, seed: int = 7) -> float:
    """Return the seconds that `commands` SETs of random keys take."""
    drawn = random.Random(seed)
    return raw_seconds(port, [_set(drawn.randrange(keyspace)) for _ in range(commands)], b"+OK")


def _set(number: int) -> bytes:
    key = b"key:%012d" % number
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n" % (len(key), key, len(VALUE), VALUE)
