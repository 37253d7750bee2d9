"""Runs whose files lie on a real S3 server and whose log lies in Redis: crashes, zombies, outages, mistakes."""

import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.files.kit import BATCHES, EXPECTED, options, redis_state, state_of, topology
from tests.support.objects import Objects
from tests.support.proxy import Proxy
from tests.support.server import RedisServer
from trident import Count, TridentTopology, openState, openTopology
from trident.access.removal import dropState
from trident.base.attempt import TransactionAttempt
from trident.errors import (
    FilesRefusedError,
    FilesUnavailableError,
    LogCorruptError,
    LogMismatchError,
    TopologyError,
    TridentError,
)
from trident.frozen.files import FrozenFolders, write_frozen
from trident.log import RedisLog
from trident.run import registry, start
from trident.spouts import FeederBatchSpout, FixedBatchSpout
from trident.testing import crash_at, run_through
from trident.testing.local import start_local

pytestmark = pytest.mark.usefixtures("in_files")

POINTS = [
    "start.state.created",
    "run.after",  # the files are written, nothing names them
    "freeze.before",
    "freeze.after",  # the log names them, no state has them
    "commit.state.before",
    "commit.state.after",
    "committed.before",
    "committed.after",
]
OF_SNAPSHOTS = ["snapshot.before", "snapshot.published"]


def counted(made: Any, given: dict[str, Any]) -> dict[str, int]:
    with start_local(made, **given) as running:
        running.processAllAvailable(timeout=60)
        return {key: value for key, value in running.state("counts").items()}


def uuid_of(given: dict[str, Any]) -> str:
    log = given["log"].look("t")
    try:
        return str(log.uuid)
    finally:
        log.close()


# --- crashes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "redis"])
@pytest.mark.parametrize("point", [*POINTS, *OF_SNAPSHOTS])
def test_a_driver_that_dies_at_any_step_is_followed_by_one_that_counts_right(
    point: str, kind: str, objects: Objects, shared_redis: RedisServer
) -> None:
    if kind == "redis" and point in OF_SNAPSHOTS:
        pytest.skip("a state in Redis takes no snapshots")
    made, given = topology(state_of(kind, shared_redis)), options(shared_redis, objects)
    count = 1 if point.startswith(("start", "snapshot")) else 3
    with crash_at(point, count), run_through(made, **given) as running:
        assert dict(running.state("counts").items()) == EXPECTED
    assert counted(topology(state_of(kind, shared_redis), 6), given) == EXPECTED
    assert objects.names("t/frozen"), "the results went through files"
    assert bool(objects.names("t/states")) == (kind == "memory")


def test_files_that_a_dead_driver_never_named_are_swept_and_others_stay(
    objects: Objects, shared_redis: RedisServer
) -> None:
    given = options(shared_redis, objects)
    with crash_at("freeze.before", 3), run_through(topology(state_of("memory", shared_redis)), **given):
        pass
    log = given["log"].open("t")
    named = log.folders("words")
    found = {"/".join(name.split("/")[1:-1]) for name in objects.names("t/frozen")}
    assert found == named, "of the attempt that died nothing is left"
    log.close()


def test_late_files_of_a_driver_that_was_taken_over_never_count_and_are_swept(
    objects: Objects, shared_redis: RedisServer
) -> None:
    """A zombie's tasks go on for as long as they like: what they write has the zombie's epoch in its name."""
    given = options(shared_redis, objects)
    made = topology(state_of("memory", shared_redis))
    with crash_at("freeze.after", 3), suppress(TridentError), start_local(made, **given) as zombie:
        zombie.processAllAvailable(timeout=60)
    place, uuid = objects.files().below("t"), uuid_of(given)
    schema = pa.schema([("word", pa.string()), ("count", pa.int64())])
    wrong = pa.record_batch([["word1"], [1_000_000]], schema=schema)

    def late(epoch: int, txid: int) -> str:
        folder = FrozenFolders(place, uuid).folder("words", TransactionAttempt(txid, 0, epoch), 1).folder
        file = write_frozen(iter([wrong]), place, folder, "0", schema)
        assert file is not None
        return f"t/{folder}/{file.name}"

    with start_local(topology(state_of("memory", shared_redis)), **given) as second:
        unnamed, beside, of_a_successor = late(1, 50), late(1, 2), late(7, 50)
        second.processAllAvailable(timeout=60)
        assert dict(second.state("counts").items()) == EXPECTED
    assert {unnamed, of_a_successor} <= set(objects.names())
    assert counted(topology(state_of("memory", shared_redis)), given) == EXPECTED
    left = set(objects.names())
    assert unnamed not in left
    assert beside in left, "its folder is named; the file goes with its batch"
    assert of_a_successor in left, "a driver of a later epoch may be about to name it"


def test_a_damaged_or_missing_object_is_named(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    for damage in ("damaged", "missing"):
        with crash_at("freeze.after", 1), suppress(TridentError):
            start_local(topology(state_of("redis", shared_redis)), **given).processAllAvailable(timeout=60)
        name = next(name for name in objects.names("t/frozen") if "/1-1-" in name)
        if damage == "damaged":
            objects.put(name, b"other")
        else:
            objects.delete(name)
        with pytest.raises(LogCorruptError, match=f"the frozen file {objects.url}/{name} is {damage}"):
            counted(topology(state_of("redis", shared_redis)), given)
        topology(state_of("redis", shared_redis)).reset("t", log=given["log"], **objects.options)


# --- a store that is away ---------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", ["memory", "redis"])
def test_nothing_is_lost_while_the_store_is_away(kind: str, objects: Objects, shared_redis: RedisServer) -> None:
    made, given = topology(state_of(kind, shared_redis)), options(shared_redis, objects)
    with Proxy(objects.server.port) as proxy:
        storage = {**objects.server.storage, "endpoint": f"http://127.0.0.1:{proxy.port}", "timeout": "300ms"}
        with start_local(made, **{**given, "filesStorage": storage}, maxAttempts=50) as running:
            proxy.hold()
            deadline = time.monotonic() + 30
            while not (failed := [e for e in running.recentProgress if e["event"] == "failed"]):
                assert time.monotonic() < deadline, "nothing noticed that the store is away"
                time.sleep(0.05)
            proxy.release()
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == EXPECTED
    assert all("FilesUnavailableError" in event["error"] for event in failed)
    assert counted(topology(state_of(kind, shared_redis), 6), given) == EXPECTED


@pytest.mark.usefixtures("impatient")
def test_a_commit_waits_for_frozen_files_that_cannot_be_read_now(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    with crash_at("freeze.after", 1), suppress(TridentError):
        start_local(topology(state_of("redis", shared_redis)), **given).processAllAvailable(timeout=60)
    with Proxy(objects.server.port) as proxy:
        storage = {**objects.server.storage, "endpoint": f"http://127.0.0.1:{proxy.port}", "timeout": "300ms"}
        threading.Timer(3.0, proxy.release).start()
        made = topology(state_of("redis", shared_redis))
        running = start_local(made, **{**given, "filesStorage": storage}, active=False, maxAttempts=50)
        proxy.hold()
        running.activate()
        with running:
            running.processAllAvailable(timeout=60)
            assert dict(running.state("counts").items()) == EXPECTED


@pytest.mark.usefixtures("impatient")
def test_a_start_without_the_store_is_told_and_takes_nothing(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    away = {**objects.server.storage, "endpoint": "http://127.0.0.1:9"}
    with pytest.raises(FilesUnavailableError, match=f"cannot read {objects.url}/t/log.uuid"):
        start_local(topology(state_of("redis", shared_redis)), **{**given, "filesStorage": away})
    log = given["log"].open("t")
    assert log.lease() is None, "the log was not taken"
    log.close()
    assert counted(topology(state_of("redis", shared_redis)), given) == EXPECTED


# --- mistakes ---------------------------------------------------------------------------------------------------------


def test_wrong_credentials_end_the_start(
    objects: Objects, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WRONG", "not-the-secret")
    given = options(shared_redis, objects)
    for secret, said in (("env:WRONG", "SignatureDoesNotMatch"), ("env:NOT_SET", "variable NOT_SET is not set")):
        storage = {**objects.server.storage, "secret_access_key": secret}
        with pytest.raises(FilesRefusedError, match=said):
            start_local(topology(state_of("memory", shared_redis)), **{**given, "filesStorage": storage})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"filesLocation": "s3://books/x"}, r"needs a log that outlives this process"),
        (
            {"filesStorage": {"region": "a"}},
            r"filesStorage= needs filesLocation=, the store to which its options apply",
        ),
        ({"filesLocation": "/data/files"}, r"filesLocation='/data/files': expected the URL of a bucket and a prefix"),
        ({"filesLocation": 5}, r"filesLocation=5: expected a URL such as s3://bucket/prefix"),
        (
            {"filesLocation": "s3://books/x", "filesStorage": {"sas_token": "a"}},
            r"filesStorage\['sas_token'\] may be a",
        ),
    ],
)
def test_wrong_options_are_refused(given: dict[str, Any], said: str, shared_redis: RedisServer) -> None:
    with pytest.raises(TopologyError, match=said):
        start_local(topology(state_of("memory", shared_redis)), **given)


@pytest.mark.parametrize("below", ["", "t/"])
def test_the_checkpoint_of_a_query_is_no_place_for_files(
    objects: Objects, shared_redis: RedisServer, below: str
) -> None:
    """It would not be continued, and the sources would be read from their beginning."""
    for name in ("metadata", "offsets/0", "commits/0"):
        objects.put(f"{below}{name}", "v1")
    before, made = objects.names(), topology(state_of("memory", shared_redis))
    said = r"filesLocation='s3://\S+': s3://\S+ is the checkpoint of a Structured Streaming query"
    with pytest.raises(TopologyError, match=said):
        start_local(made, **options(shared_redis, objects))
    assert objects.names() == before


def test_files_of_this_log_that_lie_elsewhere_are_missed_at_the_start(
    objects: Objects, shared_redis: RedisServer
) -> None:
    given = options(shared_redis, objects)
    assert counted(topology(state_of("memory", shared_redis)), given) == EXPECTED
    elsewhere = {**given, "filesLocation": f"{objects.url}/elsewhere"}
    with pytest.raises(LogMismatchError, match="has no files of topology 't', but the log of the topology names files"):
        start_local(topology(state_of("memory", shared_redis)), **elsewhere)
    for name in objects.names("t"):  # the way out that the message names
        objects.put(f"elsewhere/{name}", bytes(objects.files().read(name)))
    assert counted(topology(state_of("memory", shared_redis), 6), elsewhere) == EXPECTED


def test_a_place_of_another_log_is_refused(objects: Objects, shared_redis: RedisServer, tmp_path: Path) -> None:
    given = options(shared_redis, objects)
    assert counted(topology(state_of("memory", shared_redis)), given) == EXPECTED
    other = {"name": "t", "checkpointLocation": tmp_path, **objects.options}
    before = objects.names()
    with pytest.raises(LogMismatchError, match=r"belongs to another log \(uuid"):
        start_local(topology(state_of("memory", shared_redis)), **other)
    with pytest.raises(LogMismatchError, match="belong to the log of uuid .* force=True .* Nothing was changed"):
        topology(state_of("memory", shared_redis)).reset("t", tmp_path, **objects.options)
    with pytest.raises(LogMismatchError, match="belong to the log of uuid .* Nothing was changed"):
        dropState("t", "counts", **_another_checkpoint(shared_redis, tmp_path), **objects.options, force=True)
    assert objects.names() == before


def _another_checkpoint(redis: RedisServer, folder: Path) -> dict[str, Any]:
    """Return the location of a log of the same topology that has its files on the disk."""
    assert counted(topology(state_of("memory", redis)), {"name": "t", "checkpointLocation": folder}) == EXPECTED
    return {"checkpointLocation": folder}


def test_a_drop_deletes_no_snapshots_in_the_folder_of_another_log(
    objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    other = _another_checkpoint(shared_redis, tmp_path)
    log = RedisLog(shared_redis.url, requireDurable=False)
    mine = {"name": "t", "log": log, "checkpointLocation": tmp_path / "mine"}
    assert counted(topology(state_of("memory", shared_redis)), mine) == EXPECTED
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(LogMismatchError, match="belong to the log of uuid"):
        dropState("t", "counts", log=log, **other, force=True)
    another = RedisLog(shared_redis.url, prefix="another", requireDurable=False)
    another.open("t").close()
    with pytest.raises(LogMismatchError, match="belong to the log of uuid .* force=True"):
        topology(state_of("memory", shared_redis)).reset("t", tmp_path / "mine", log=another)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_reset_one_level_too_high_deletes_nothing(objects: Objects, shared_redis: RedisServer) -> None:
    given = {**options(shared_redis, objects), "filesLocation": f"{objects.url}/t"}  # so the files are at t/t
    assert counted(topology(state_of("memory", shared_redis)), given) == EXPECTED
    objects.put("t/other/log.uuid", "another topology's")
    before = objects.names()
    with pytest.raises(LogMismatchError, match=r"belong to no log \(the file log.uuid is missing\)"):
        topology(state_of("memory", shared_redis)).reset("t", log=given["log"], **objects.options)
    assert objects.names() == before
    topology(state_of("memory", shared_redis)).reset("t", log=given["log"], force=True, **objects.options)
    assert objects.names() == before, "by force too only this library's files at that very place are deleted"


def test_an_empty_place_is_not_taken_for_that_of_the_log(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    made = topology(state_of("memory", shared_redis))
    assert counted(made, given) == EXPECTED
    wrong = {"log": given["log"], **objects.options, "filesLocation": f"{objects.url}/typo"}
    said = f"belong to no log .* whose files are at {objects.url}/t: give the location"
    with pytest.raises(LogMismatchError, match=said):
        made.reset("t", **wrong)
    with pytest.raises(LogMismatchError, match=said):
        dropState("t", "counts", **wrong, force=True)
    with pytest.raises(LogMismatchError, match="according to its log"):
        dropState("t", "counts", log=given["log"], force=True)
    assert counted(topology(state_of("memory", shared_redis), 6), given) == EXPECTED


def test_a_log_that_names_no_file_may_get_another_location(objects: Objects, shared_redis: RedisServer) -> None:
    """A bucket that is gone must not be the end of a topology that needs nothing of it."""
    kept, given = redis_state(shared_redis), options(shared_redis, objects)
    gone = {**given, "filesLocation": f"{objects.url}/gone"}
    made = TridentTopology()
    words = made.newStream("words", FeederBatchSpout("word string"))
    words.groupBy("word").persistentAggregate(kept, Count(), "count", name="counts")
    for places in (gone, given):
        with start_local(made, **places) as running:
            assert dict(running.state("counts").items()) == {}
    with pytest.raises(LogMismatchError, match=f"are at {objects.url}/t, according to its log"):
        start_local(made, name="t", log=given["log"])
    dropState("t", "counts", log=given["log"], url=shared_redis.url)  # needs no place of files


def test_a_start_whose_place_was_changed_by_another_driver_does_not_record_its_own(
    objects: Objects, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = options(shared_redis, objects)
    late = {**given, "filesLocation": f"{objects.url}/late"}
    begin = start.begin

    def beginning(*args: Any, **options_: Any) -> Any:
        monkeypatch.setattr(start, "begin", begin)
        assert counted(topology(redis_state(shared_redis)), given) == EXPECTED  # between the check and the lease
        return begin(*args, **options_)

    monkeypatch.setattr(start, "begin", beginning)
    monkeypatch.setattr(registry, "reserve", lambda name, replace, start: None)
    with pytest.raises(LogMismatchError, match="another driver of topology 't' moved its files to .*/t during this"):
        start_local(topology(redis_state(shared_redis)), **late)
    with closing(given["log"].look("t")) as log:
        assert log.files_address() == f"{objects.url}/t"


def test_published_files_and_those_of_others_outlive_a_reset(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    made = topology(state_of("memory", shared_redis))
    with start_local(made, **given) as running:
        running.processAllAvailable(timeout=60)
    objects.put("t/out/rows.parquet", "somebody's")
    made.reset("t", log=given["log"], **objects.options)
    assert objects.names() == ["t/out/rows.parquet"]


@pytest.mark.parametrize("place", ["objects", "folder"])
def test_an_output_among_the_topologys_own_files_is_refused(
    place: str, objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    made = topology(state_of("memory", shared_redis))
    path = f"{objects.url}/t/out" if place == "objects" else tmp_path / "t" / "out"
    storage = objects.server.storage if place == "objects" else None
    made.newStream("rows", FixedBatchSpout("word string", [["a"]])).writeParquet(path, name="out", storage=storage)
    given = options(shared_redis, objects) if place == "objects" else {"name": "t", "checkpointLocation": tmp_path}
    with pytest.raises(TopologyError, match=r"is inside .*t, where the topology keeps its own files"):
        start_local(made, **given)
    if place == "folder":  # also beside files on an object store, and under another name of the folder
        (tmp_path / "link").symlink_to(tmp_path)
        for more in (objects.options, {"checkpointLocation": tmp_path / "link"}):
            with pytest.raises(TopologyError, match=r"is inside .*t, where the topology keeps its own files"):
                start_local(made, **{**given, **more})
        assert not (tmp_path / "t" / "log.uuid").exists() and objects.names() == [], "refused before anything is taken"


@pytest.mark.parametrize("kept", ["redis", "folder"])
def test_who_forgets_the_location_of_the_files_is_told_it(
    kept: str, objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    log = RedisLog(shared_redis.url, requireDurable=False)
    places: dict[str, Any] = {"checkpointLocation": tmp_path} | ({"log": log} if kept == "redis" else {})
    made = topology(state_of("memory", shared_redis))
    assert counted(made, {"name": "t", **places, **objects.options}) == EXPECTED
    before = objects.names()
    told = f"are at {objects.url}/t, according to its log: give filesLocation='{objects.url}'"
    with pytest.raises(LogMismatchError, match=told):
        start_local(topology(state_of("memory", shared_redis)), name="t", **places)
    with pytest.raises(LogMismatchError, match=told):
        openState("t", "counts", **places)
    with pytest.raises(LogMismatchError, match=told):
        openTopology(made, name="t", **places)
    with pytest.raises(LogMismatchError, match=told):
        dropState("t", "counts", **places, force=True)
    with pytest.raises(LogMismatchError, match=told):
        made.reset("t", **places)
    assert objects.names() == before
    with openState("t", "counts", **places, **objects.options) as counts:
        assert dict(counts.items()) == EXPECTED


# --- beside a run -----------------------------------------------------------------------------------------------------


def test_a_log_on_this_disk_may_have_its_files_there_too(
    objects: Objects, shared_redis: RedisServer, tmp_path: Path
) -> None:
    given = {"name": "t", "checkpointLocation": tmp_path, **objects.options}
    with crash_at("freeze.after", 3), run_through(topology(state_of("memory", shared_redis)), **given) as running:
        assert dict(running.state("counts").items()) == EXPECTED
    assert not (tmp_path / "t" / "frozen").exists() and not (tmp_path / "t" / "states").exists()


def test_states_are_read_and_dropped_from_outside(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    made = topology(state_of("memory", shared_redis))
    assert counted(made, given) == EXPECTED
    places = {"log": given["log"], **objects.options}
    with openState("t", "counts", **places) as counts:
        assert dict(counts.items()) == EXPECTED
    with openTopology(made, name="t", **places) as opened:
        assert dict(opened.state("counts").items()) == EXPECTED
    with pytest.raises(TopologyError, match="checkpointLocation or filesLocation"):
        openState("t", "counts", log=given["log"])
    dropState("t", "counts", **places)
    assert objects.names("t/states") == []
    assert counted(topology(state_of("memory", shared_redis)), given) == {}


def test_a_reset_takes_the_files_too(objects: Objects, shared_redis: RedisServer) -> None:
    given = options(shared_redis, objects)
    assert counted(topology(state_of("memory", shared_redis)), given) == EXPECTED
    topology(state_of("memory", shared_redis)).reset("t", log=given["log"], **objects.options)
    assert objects.names() == []
    assert counted(topology(state_of("memory", shared_redis)), given) == EXPECTED
    assert len(BATCHES) == 6
