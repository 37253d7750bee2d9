"""A topology whose files lie on an object store, with its log in Redis: no disk that two machines share."""

from collections import Counter
from typing import Any

from tests.support.objects import Objects
from tests.support.server import RedisServer
from trident import Count, TridentTopology
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState, RedisMapState

BATCHES = [[f"word{(batch * 7 + row) % 50}" for row in range(200)] for batch in range(6)]
EXPECTED = dict(Counter(word for batch in BATCHES for word in batch))


def topology(state: Any, first: int = 0) -> TridentTopology:
    """Count the words of all batches from `first` on."""
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", BATCHES[first:])).groupBy("word")
    words.persistentAggregate(state, Count(), "count", name="counts")
    return made


def redis_state(redis: RedisServer, **options: Any) -> Any:
    return RedisMapState.opaque(redis.url, **{"buckets": 8, **options})


def state_of(kind: str, redis: RedisServer) -> Any:
    return MemoryMapState.opaque() if kind == "memory" else redis_state(redis)


def options(redis: RedisServer, objects: Objects) -> dict[str, Any]:
    """Return the options of a start: a log in Redis, files on S3, and no checkpointLocation."""
    return {"name": "t", "log": RedisLog(redis.url, requireDurable=False), **objects.options}
