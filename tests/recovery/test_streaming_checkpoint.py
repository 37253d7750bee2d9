"""The checkpoint of a Structured Streaming query is no place for a topology's log or files."""

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.server import RedisServer
from trident import Count, TridentTopology, forkTopology
from trident.errors import TopologyError
from trident.log import RedisLog
from trident.spouts import FixedBatchSpout
from trident.state import MemoryMapState
from trident.testing.local import start_local


def query_checkpoint(folder: Path) -> Path:
    """Make the files of a query's checkpoint, as Spark does."""
    for name in ("offsets", "commits", "sources/0"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"7b2c"}')
    (folder / "offsets" / "0").write_text('v1\n{}\n{"orders":{"0":100}}')
    (folder / "commits" / "0").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def counting() -> TridentTopology:
    topology = TridentTopology()
    words = topology.newStream("words", FixedBatchSpout("word string", [["a", "b"]])).groupBy("word")
    words.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="counts")
    return topology


def counted(**given: Any) -> dict[str, int]:
    with start_local(counting(), name="wc", **given) as running:
        running.processAllAvailable(timeout=20)
        return dict(running.state("counts").items())


@pytest.mark.parametrize("below", [False, True], ids=["location", "folder of the topology"])
@pytest.mark.parametrize("log", ["file", "Redis"])
def test_a_start_begins_no_log_in_the_checkpoint_of_a_query(
    tmp_path: Path, shared_redis: RedisServer, log: str, below: bool
) -> None:
    """It would read each source from its beginning, beside the position of the query."""
    where = query_checkpoint(tmp_path / "at" / "wc" if below else tmp_path / "at")
    given: dict[str, Any] = {"checkpointLocation": tmp_path / "at"}
    given |= {} if log == "file" else {"log": RedisLog(shared_redis.url, requireDurable=False)}
    before = sorted(tmp_path.rglob("*"))
    said = f"checkpointLocation='{tmp_path / 'at'}': {where} is the checkpoint of a Structured Streaming query"
    with pytest.raises(TopologyError, match=re.escape(said)) as caught:
        counted(**given)
    assert "(it has metadata, offsets/, commits/, sources/)" in str(caught.value)
    assert sorted(tmp_path.rglob("*")) == before
    assert counted(**{**given, "checkpointLocation": tmp_path / "its own"}) == {"a": 1, "b": 1}


def test_a_log_that_is_there_continues_beside_a_query(tmp_path: Path) -> None:
    assert counted(checkpointLocation=tmp_path / "at") == {"a": 1, "b": 1}
    query_checkpoint(tmp_path / "at")
    assert counted(checkpointLocation=tmp_path / "at") == {"a": 1, "b": 1}


def test_a_folder_that_looks_like_one_in_part_is_taken(tmp_path: Path) -> None:
    """A topology may be named `offsets`, and a file `metadata` alone is no checkpoint."""
    (tmp_path / "metadata").write_text("{}")
    assert counted(checkpointLocation=tmp_path) == {"a": 1, "b": 1}
    shutil.copytree(query_checkpoint(tmp_path / "old") / "offsets", tmp_path / "other" / "offsets")
    assert counted(checkpointLocation=tmp_path / "other") == {"a": 1, "b": 1}


def test_a_fork_begins_no_log_in_the_checkpoint_of_a_query(tmp_path: Path) -> None:
    with start_local(counting(), name="wc", checkpointLocation=tmp_path / "at") as running:
        running.processAllAvailable(timeout=20)
        running.savepoint("now")
    query_checkpoint(tmp_path / "query")
    with pytest.raises(TopologyError, match="is the checkpoint of a Structured Streaming query"):
        forkTopology("wc", "now", "trial", checkpointLocation=tmp_path / "at", toCheckpointLocation=tmp_path / "query")
