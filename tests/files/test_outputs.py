"""A Parquet output on a real S3 server: whole batches, each once, whatever dies, comes late or is away."""

import io
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.compiler.stage_runner import table
from tests.files.kit import BATCHES, options
from tests.support.objects import Objects
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from tests.support.topologies import DeclaredSpout
from trident import TridentTopology, publishedFiles
from trident.base.attempt import Lease
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.errors import (
    DuplicateNameError,
    OutputConflictError,
    OutputError,
    OutputRefusedError,
    OutputUnavailableError,
    TopologyError,
)
from trident.files.disk import DiskFiles
from trident.files.object_options import Storage
from trident.outputs.parquet_folder import NewBatch
from trident.outputs.parquet_outlet import ParquetOutlet
from trident.outputs.run_identity import RunIdentity
from trident.plan.nodes import SpoutSource, WriteParquet
from trident.spouts import FixedBatchSpout
from trident.testing import crash_at, run_through
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind

POINTS = ["freeze.after", "output.before", "output.staged", "output.published", "output.after", "committed.after"]
ALL = Counter(word for batch in BATCHES for word in batch)


def topology(objects: Objects, storage: dict[str, str] | None = None, **given: Any) -> TridentTopology:
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string, n long", _numbered()))
    words.writeParquet(f"{objects.url}/out", storage=storage or objects.server.storage, **given)
    return made


def _numbered() -> list[list[tuple[str, int]]]:
    return [[(word, number % 3) for number, word in enumerate(batch)] for batch in BATCHES]


def in_manifests(objects: Objects) -> Counter[str]:
    """Count the words in the files that `publishedFiles` gives."""
    urls = publishedFiles(f"{objects.url}/out", storage=objects.server.storage)
    return words_in(objects, [url.removeprefix(f"{objects.url}/") for url in urls])


def at_a_glance(objects: Objects) -> Counter[str]:
    """Count the words in all files, as a reader does that knows nothing of manifests."""
    return words_in(objects, [name for name in objects.names("out") if name.endswith(".parquet")])


def words_in(objects: Objects, names: list[str]) -> Counter[str]:
    found = Counter[str]()
    for name in names:
        found.update(pq.ParquetFile(io.BytesIO(bytes(objects.files().read(name)))).read()["word"].to_pylist())
    return found


def outlet(objects: Objects, epoch: int = 1, found: int = 0, log: str = "0123456789", **other: Any) -> ParquetOutlet:
    """Return a Parquet output of a run, without the run."""
    site, schema = CallSite("x"), parse_schema(other.pop("fields", "word string"))
    source = SpoutSource("s", DeclaredSpout(SpoutKind.TRANSACTIONAL), step="s/0", site=site, schema=schema)
    storage = Storage.of({**objects.server.storage, **other.pop("storage", {})})
    name = other.pop("name", "out")
    path = f"{objects.url}/out"
    sink = WriteParquet(source, name, path, (), storage, step="s/1:writeParquet", site=site, schema=schema)
    return ParquetOutlet(sink, RunIdentity("t", log, epoch, found), DiskFiles(Path("/nowhere")), None)


def words(*values: str) -> pa.Table:
    return table("word string", *((value,) for value in values))


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("partitions", [None, "n"])
@pytest.mark.parametrize("point", POINTS)
def test_each_row_is_published_once_through_a_crash(
    point: str, partitions: str | None, objects: Objects, shared_redis: RedisServer
) -> None:
    made, given = topology(objects, partitionBy=partitions), options(shared_redis, objects)
    with crash_at(point, 3), run_through(made, **given):
        pass
    assert in_manifests(objects) == at_a_glance(objects) == ALL
    manifests = [name for name in objects.names("out/_trident/batches")]
    assert manifests == [f"out/_trident/batches/{txid:020}.json" for txid in range(1, 7)]


@pytest.mark.usefixtures("in_files")
def test_rows_that_were_at_hand_and_rows_from_frozen_files_make_one_object(
    objects: Objects, shared_redis: RedisServer
) -> None:
    """The first write is of the table in the driver's memory, the second one of what the log names."""
    given = options(shared_redis, objects)
    with crash_at("output.staged", 2), run_through(topology(objects), **given):
        pass
    assert in_manifests(objects) == at_a_glance(objects) == ALL


def test_a_batch_is_not_published_before_its_manifest_is_there(objects: Objects) -> None:
    driver = outlet(objects)
    with driver._place.target(driver._owner, Lease(1, ""), 1) as target:
        assert target is not None
        driver._write_files(words("dog", "cat"), target)
    assert at_a_glance(objects) == Counter(dog=1, cat=1) and in_manifests(objects) == Counter()
    driver.take(words("dog", "cat"), 1)
    assert at_a_glance(objects) == in_manifests(objects) == Counter(dog=1, cat=1)


def test_a_driver_that_was_taken_over_adds_nothing_however_late_it_writes(objects: Objects) -> None:
    sleeper = outlet(objects)
    sleeper.take(words("dog"), 1)
    successor = outlet(objects, epoch=2, found=2)
    successor.take(words("cat", "cow"), 2)
    before = objects.names()
    sleeper.take(words("cat", "cow"), 2)  # the rows that the log froze, as every driver of the log reads them
    with sleeper._place.target(sleeper._owner, Lease(1, ""), 2) as target:
        assert target is not None
        parts = sleeper._write_files(words("cat", "cow"), target)
        other = NewBatch("0123456789", 2, tuple(parts[:0]))
        assert not sleeper._place.publish(target, other), "another manifest is refused"
    assert objects.names() == before
    assert in_manifests(objects) == at_a_glance(objects) == Counter(dog=1, cat=1, cow=1)


def test_an_empty_batch_leaves_nothing_and_a_gap_is_none(objects: Objects) -> None:
    driver = outlet(objects)
    for txid, rows in ((1, words("dog")), (2, words()), (3, words("cow"))):
        driver.take(rows, txid)
    assert publishedFiles(f"{objects.url}/out", storage=objects.server.storage, afterTxid=1) == [
        f"{objects.url}/out/txid=3/part-00000-01234567.parquet"
    ]


# --- what does not fit -----------------------------------------------------------------------------------------------


def test_an_object_of_another_writer_version_is_kept_and_other_rows_are_refused(objects: Objects) -> None:
    driver = outlet(objects, found=2)
    for txid, rows in ((1, words("dog")), (2, words("other"))):
        sink = io.BytesIO()
        pq.write_table(rows, sink, compression="gzip")
        objects.put(f"out/txid={txid}/part-00000-01234567.parquet", sink.getvalue())
    driver.take(words("dog"), 1)
    assert in_manifests(objects) == Counter(dog=1), "with the size that the object has"
    with pytest.raises(OutputConflictError, match="exists, but its rows differ from those in the log"):
        driver.take(words("cow"), 2)


def test_another_owner_other_things_and_an_old_copy_of_the_log_are_refused(objects: Objects) -> None:
    outlet(objects).take(words("dog"), 1)
    for given, said in (
        ({"log": "another"}, "belongs to another log"),
        ({"name": "other"}, "belongs to output 'out' of topology 't'"),
        ({"fields": "letter string"}, r"has \(word string\), but the topology writes \(letter string\)"),
        ({"found": 0}, "has batch 1, but the last batch in the log is 0: the log is an old copy"),
    ):
        with pytest.raises(OutputConflictError, match=said):
            outlet(objects, **{"found": 1, **given})
    other = Objects(objects.server)
    other.put("out/mine.txt", "keep")
    with pytest.raises(OutputConflictError, match=r"contains other objects \(mine.txt\): choose an empty one"):
        outlet(other)
    with pytest.raises(OutputConflictError, match="has 1 rows, but the log has 2"):
        outlet(objects, found=1).take(words("dog", "cat"), 1)


def test_the_first_of_two_logs_gets_an_empty_place(objects: Objects) -> None:
    got, start = list[str](), threading.Barrier(4)

    def take(log: str) -> None:
        start.wait()
        try:
            outlet(objects, log=log)
        except OutputConflictError:
            return
        got.append(log)

    threads = [threading.Thread(target=take, args=(f"log{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(got) == 1


def test_an_object_that_was_changed_or_deleted_is_named(objects: Objects) -> None:
    outlet(objects).take(words("dog"), 1)
    name = "out/txid=1/part-00000-01234567.parquet"
    objects.put(name, b"other")
    with pytest.raises(OutputConflictError, match=f"{name} has 5 bytes, but .* were published"):
        in_manifests(objects)
    objects.delete(name)
    with pytest.raises(OutputConflictError, match=f"{name} is gone"):
        in_manifests(objects)
    objects.put("out/_trident/batches/00000000000000000001.json", b"[]")
    with pytest.raises(OutputConflictError, match="was changed after it was written"):
        in_manifests(objects)


def test_wrong_calls(objects: Objects) -> None:
    with pytest.raises(OutputError, match="is not a folder of a writeParquet output"):
        publishedFiles(f"{objects.url}/nowhere", storage=objects.server.storage)
    made = TridentTopology()
    stream = made.newStream("words", FixedBatchSpout("word string", [["dog"]]))
    with pytest.raises(
        TopologyError, match="storage= holds options of an object store, but /data/x is not in an object store"
    ):
        stream.writeParquet("/data/x", storage={"region": "a"})
    with pytest.raises(TopologyError, match=r"storage\['sas_token'\] may be a secret"):
        stream.writeParquet("s3://books/x", storage={"sas_token": "a"})
    stream.writeParquet("s3://books/x", name="one")
    stream.writeParquet("s3://books/xy", name="two")
    stream.writeParquet("/data/x", name="three")
    with pytest.raises(DuplicateNameError, match="is inside the other"):
        stream.writeParquet("s3://books/x/y", name="four")


# --- a store that is away or refuses ----------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
def test_nothing_is_lost_while_the_store_is_away(objects: Objects, shared_redis: RedisServer) -> None:
    with Proxy(objects.server.port) as proxy:
        storage = {**objects.server.storage, "endpoint": f"http://127.0.0.1:{proxy.port}", "timeout": "300ms"}
        made = topology(objects, storage)
        log = options(shared_redis, objects)["log"]
        with start_local(made, name="t", log=log) as running:
            proxy.hold()
            threading.Timer(3.0, proxy.release).start()
            running.processAllAvailable(timeout=60)
            failed = [event for event in running.recentProgress if event["event"] == "failed"]
    assert failed and all("OutputUnavailableError" in event["error"] for event in failed)
    assert in_manifests(objects) == at_a_glance(objects) == ALL


@pytest.mark.usefixtures("impatient")
def test_a_start_says_that_the_store_is_away_or_refuses(objects: Objects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WRONG", "not-the-secret")
    with pytest.raises(OutputRefusedError, match="s/1:writeParquet: the folder s3://.* cannot be written: .*Signature"):
        outlet(objects, storage={"secret_access_key": "env:WRONG"})
    with pytest.raises(OutputUnavailableError, match="cannot be written: cannot read"):
        outlet(objects, storage={"endpoint": "http://127.0.0.1:9"})
