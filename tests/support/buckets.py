"""What lies in the buckets of a server's states."""

from tests.support.server import RedisServer
from trident_state.redis.layout import LEGEND


def stored_keys(server: RedisServer) -> int:
    """How many keys, of all states; a bucket's legend is none."""
    names = list(server.client.scan_iter("*:b:*", count=1000))
    pipeline = server.client.pipeline(transaction=False)
    for name in names:
        pipeline.hlen(name)
        pipeline.hexists(name, LEGEND)
    replies = list(map(int, pipeline.execute()))
    return sum(replies[::2]) - sum(replies[1::2])
