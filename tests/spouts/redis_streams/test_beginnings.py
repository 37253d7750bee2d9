"""A stream begins with a start for each of its streams in Redis; a stream that has begun needs none."""

from typing import Any

import pytest

from tests.support.plans import logged
from tests.support.server import RedisServer
from trident.base.attempt import TransactionAttempt
from trident.errors import TopologyError
from trident.spouts import RedisStreamSpout


def planned(executor: Any, previous: Any = None, txid: int = 1) -> Any:
    return logged(executor.plan(TransactionAttempt(txid, 0), previous, 0.0))


def test_a_stream_without_a_given_start_is_refused_before_anything_is_read(shared_redis: RedisServer) -> None:
    """It would begin at its first entry, and a user who takes a position over would count its entries twice."""
    for stream in ("a", "b", "c"):
        shared_redis.client.xadd(stream, {"n": 1}, id="5-0")
    in_part = RedisStreamSpout(shared_redis.url, ["a", "b"], "n long", startingIds={"a": "5-0"})
    executor = in_part.open()
    for _ in range(2):
        with pytest.raises(TopologyError, match="startingIds has no start for 'b': a new stream needs one for each"):
            planned(executor)
    executor.close()
    assert not list(in_part.examine()), "the doctor does not know whether the stream has begun"
    whole = RedisStreamSpout(shared_redis.url, ["a", "b"], "n long", startingIds={"a": "5-0", "b": "earliest"})
    first = planned(whole.open())
    assert [page[0] for page in first["pages"]] == ["b"]
    more = RedisStreamSpout(shared_redis.url, ["a", "b", "c"], "n long", startingIds={"a": "5-0"}).open()
    assert [page[0] for page in planned(more, first, 2)["pages"]] == ["c"]
    assert {page[0] for page in planned(more)["pages"]} == {"b", "c"}, "a run that has seen a later batch"
    more.close()
