"""Which states there are, as a checkpoint's logs and a server tell it."""

from pathlib import Path

import pytest

from tests.access.small_topologies import Fed, counted, counting, everything, fixed
from tests.support.server import RedisServer
from trident import listStates
from trident.errors import LogError, TopologyError
from trident.log import RedisLog
from trident.state import MemoryMapState, RedisMapState


def test_a_checkpoint_tells_of_all_its_topologies_states(tmp_path: Path, shared_redis: RedisServer) -> None:
    far = RedisMapState.transactional(shared_redis.url, groups=2, buckets=64)
    counted(counting(fixed(["a"], ["b"]), far=far), checkpointLocation=tmp_path)
    fed = Fed(MemoryMapState.nonTransactional(), checkpointLocation=tmp_path / "other")
    with fed.running:
        files = everything(tmp_path)
        counts, elsewhere = listStates(tmp_path)
        assert everything(tmp_path) == files
        assert counts.asDict() == {
            "topology": "wc",
            "name": "counts",
            "place": "memory",
            "kind": "opaque",
            "shape": "(word string) -> int64 by Count",
            "batchGroup": "words",
            "txid": 2,
            "epoch": 1,
            "heldByDriver": False,
        }
        assert (elsewhere.name, elsewhere.place, elsewhere.kind) == (
            "far",
            "a server or a database, which the log does not name",
            None,
        )
        (held,) = listStates(tmp_path / "other", topology="wc")
        assert held.heldByDriver and held.kind == "nonTransactional"
        (found,) = listStates(url=shared_redis.url)
        assert (found.topology, found.name, found.kind, found.txid) == ("wc", "far", "transactional", 2)
        assert (found.shape, found.batchGroup, found.heldByDriver) == (counts.shape, "words", None)
        assert listStates(url=shared_redis.url, topology="wd") == listStates(url=shared_redis.url, prefix="x") == []
    assert listStates(tmp_path / "nowhere") == [] and not (tmp_path / "nowhere").exists()
    with pytest.raises(LogError, match=r"no topology 'wd' under .* \(there is 'wc'\)"):
        listStates(tmp_path, topology="wd")


def test_a_log_in_redis_tells_of_its_topology(tmp_path: Path, shared_redis: RedisServer) -> None:
    log = RedisLog(shared_redis.url, requireDurable=False)
    counted(counting(fixed(["a"])), checkpointLocation=tmp_path, log=log)
    with pytest.raises(TopologyError, match="belongs to one topology: give topology= too"):
        listStates(log=log)
    (found,) = listStates(log=log, topology="wc")
    assert (found.name, found.txid, found.heldByDriver) == ("counts", 1, False)
    with pytest.raises(LogError, match="the log of topology 'wd' does not exist"):
        listStates(log=log, topology="wd")
