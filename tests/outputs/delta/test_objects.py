"""A Delta table on an object store: a real S3 server, whose conditional writes make each version once."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from tests.outputs.delta.outlets import outlet
from tests.support.objects import Objects
from tests.support.objects import objects as objects
from tests.support.objects import s3_server as s3_server
from tests.support.s3 import SECRET, S3Server
from trident import TridentTopology
from trident.base.errors import FencedError
from trident.errors import OutputConflictError, OutputRefusedError, OutputUnavailableError
from trident.spouts import DeltaSpout, FixedBatchSpout
from trident.testing.local import start_local


def rows(objects: Objects) -> list[Any]:
    table = DeltaTable(objects.url, storage_options=objects.server.delta_storage)
    return sorted(tuple(row.values()) for row in table.to_pyarrow_table().to_pylist())


def test_changes_on_an_object_store(objects: Objects, tmp_path: Path) -> None:
    batches: list[Any] = [[(1, "a", "insert"), (2, "b", "insert")], [(1, "a", "delete"), (3, "c", "insert")]]
    made = TridentTopology()
    changes = made.newStream("s", FixedBatchSpout("id long, w string, kind string", batches)).asChanges("kind")
    changes.writeDelta(objects.url, key="id", storageOptions=objects.server.delta_storage)
    with start_local(made, checkpointLocation=tmp_path) as running:
        running.processAllAvailable(timeout=60)
    assert rows(objects) == [(2, "b"), (3, "c")]
    assert DeltaSpout(objects.url, storageOptions=objects.server.delta_storage).schema.names == ["id", "w"]


def test_each_batch_is_there_once_and_a_later_driver_counts(objects: Objects) -> None:
    given = tuple(sorted(objects.server.delta_storage.items()))
    first, batch = outlet(objects.url, "v long", options=given), pa.table({"v": [1]})
    first.take(batch, 1)
    first.take(batch, 1)
    later = outlet(objects.url, "v long", epoch=2, last_frozen=1, options=given)
    later.take(batch, 1)
    with pytest.raises(FencedError, match="has taken over this output"):
        first.take(pa.table({"v": [2]}), 2)
    later.take(pa.table({"v": [3]}), 2)
    assert rows(objects) == [(1,), (3,)]


@pytest.mark.parametrize("key", [(), ("v",)])
def test_a_driver_that_is_replaced_while_it_writes_adds_nothing(
    objects: Objects, key: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = tuple(sorted(objects.server.delta_storage.items()))
    made = outlet(objects.url, "v long", options=given, key=key)
    write = made._writer.write

    def late(*args: Any) -> None:
        outlet(objects.url, "v long", epoch=2, options=given, key=key)
        write(*args)

    monkeypatch.setattr(made._writer, "write", late)
    with pytest.raises(OutputUnavailableError, match="another writer changed the table meanwhile"):
        made.take(pa.table({"v": [1]}), 1)
    with pytest.raises(FencedError):
        made.take(pa.table({"v": [1]}), 1)
    assert rows(objects) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "no"}, "it refuses the start: .*403 Forbidden"),
        ({"conditional_put": "disabled"}, r"not yet implemented.* \(the store needs conditional writes\)"),
    ],
)
def test_a_store_that_refuses(objects: Objects, change: dict[str, str], says: str) -> None:
    with pytest.raises(OutputRefusedError, match=says) as raised:
        outlet(objects.url, "v long", options=tuple((objects.server.delta_storage | change).items()))
    assert SECRET not in str(raised.value) and "<" not in str(raised.value)


def test_a_bucket_that_is_not_there(s3_server: S3Server) -> None:
    with pytest.raises(OutputRefusedError, match="it refuses the start: .*404 Not Found"):
        outlet("s3://nowhere/t", "v long", options=tuple(s3_server.delta_storage.items()))


def test_other_objects_at_the_place_are_refused(objects: Objects) -> None:
    objects.put("a/b", "mine")
    with pytest.raises(OutputConflictError, match=r"has no Delta table, but other files \(a\)"):
        outlet(objects.url, "v long", options=tuple(objects.server.delta_storage.items()))


def test_a_store_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with S3Server(tmp_path) as server:
        objects = Objects(server)
        limits = {"max_retries": "1", "retry_timeout": "1s", "connect_timeout": "1s", "timeout": "2s"}
        made = outlet(objects.url, "v long", options=tuple((server.delta_storage | limits).items()))
        server.stop()
        with pytest.raises(OutputUnavailableError, match="batch 1 is written again, unless it is there"):
            made.take(pa.table({"v": [1]}), 1)
