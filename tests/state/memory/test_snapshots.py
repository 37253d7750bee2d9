"""Durability: what is written when, in which order, and what a restart makes of it."""

import contextlib
import logging
import os
import re
import stat
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.base.attempt import Lease
from trident.base.errors import FencedError, FilesUnavailableError, StateLostError
from trident.testing.contracts.stores import FIRST, SECOND, FileHome, Setting
from trident.testing.contracts.stores.fixtures import every_kind, marker
from trident_state.memory import MemoryStore
from trident_state.memory.segments import Manifest, read_manifest
from trident_state.memory.snapshots import Snapshots
from trident_state.memory.store import Pace
from trident_state.state_shape import StateKind, replacing
from trident_state.store_messages import Update


@pytest.fixture
def setting(tmp_path: Path) -> Setting:
    return Setting(MemoryStorage(tmp_path))


@pytest.fixture
def home(tmp_path: Path) -> FileHome:
    return FileHome(tmp_path / "checkpoint" / "states" / "counts")


class Hand:
    """A clock that moves by hand."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


def opened(setting: Setting, home: FileHome, pace: Pace = NEVER, clock: Hand | None = None) -> MemoryStore:
    return MemoryStore(setting.identity, setting.shape, setting.kind, home, None, pace, clock)


def started(setting: Setting, home: FileHome, pace: Pace = NEVER, clock: Hand | None = None) -> MemoryStore:
    store = opened(setting, home, pace, clock)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    return store


def restarted(setting: Setting, home: FileHome, lease: Lease = SECOND) -> MemoryStore:
    store = opened(setting, home)
    store.acquire(lease)
    return store


def manifest(home: FileHome) -> Manifest:
    text = home.manifest()
    assert text is not None
    return read_manifest(text, "state 'counts'")


def files(home: FileHome) -> set[str]:
    assert home.folder is not None
    return {path.name for path in home.folder.iterdir()} if home.folder.exists() else set()


def settle(store: MemoryStore) -> None:
    """Wait for the snapshot under way."""
    with store._snapshotting:
        pass


# --- what is written -------------------------------------------------------------------------------------------------


def test_without_a_folder_nothing_survives_and_nothing_is_waited_for(setting: Setting) -> None:
    home = FileHome(None)
    store = opened(setting, home)
    store.create(FIRST, 3)
    store.acquire(FIRST)
    setting.apply(store, 4, {1: 1})
    assert store.durable() == store.snapshot() == 4
    store.close()
    assert opened(setting, home).report().absent
    store.drop()
    assert store.report().absent


@every_kind
def test_a_snapshot_holds_what_changed_since_the_last_one(tmp_path: Path, home: FileHome, kind: StateKind) -> None:
    setting = Setting(MemoryStorage(tmp_path), kind)
    store = started(setting, home)
    setting.apply(store, 1, {n: 1 for n in range(10_000)})
    store.snapshot()
    setting.apply(store, 2, {n: 1 for n in range(10)})
    setting.apply(store, 3, {n: 1 for n in range(5, 20)})
    assert store.snapshot() == 3
    assert [(s.since, s.txid, s.rows) for s in manifest(home).segments] == [(0, 1, 10_000), (1, 3, 20)]
    assert home.folder is not None
    for segment in manifest(home).segments:
        assert (home.folder / segment.name).stat().st_size == segment.bytes
    again = restarted(setting, home)
    assert setting.read(again, [0, 5, 19, 20, 9_999], None) == [2, 3, 2, 1, 1]


def test_a_manifest_gets_the_rules_of_the_next_driver(setting: Setting, home: FileHome) -> None:
    """The driver before combined values, and this one replaces them."""
    setting = replace(setting, combine=replacing())
    store = started(setting, home)
    setting.apply(store, 1, {1: 10})
    store.snapshot()
    former = msgspec.structs.replace(manifest(home), replaces=False)
    assert b"replaces" not in former.encoded()
    home.publish(former.encoded(), FIRST)
    again = restarted(setting, home)
    assert manifest(home).replaces and manifest(home).segments == former.segments
    assert setting.read(again, [1], None) == [10]


def test_large_values_are_written_in_small_record_batches(setting: Setting, home: FileHome) -> None:
    setting = replace(setting, value=pa.binary(), combine=replacing())
    store = started(setting, home)
    values = pa.array([bytes([number]) * 200_000 for number in range(200)])
    keys = pa.table({"word": [f"word{number}" for number in range(200)]})
    store.apply(FIRST, Update(1, keys, values))
    store.snapshot()
    (segment,) = manifest(home).segments
    assert home.folder is not None
    with pa.ipc.open_file(home.folder / segment.name) as reader:
        sizes = [reader.get_batch(at).nbytes for at in range(reader.num_record_batches)]
    assert max(sizes) < sum(sizes) / 3
    assert restarted(setting, home).read(keys, 1).values.equals(values)


def test_segments_stay_few_and_hold_little_more_than_the_state(setting: Setting, home: FileHome) -> None:
    store, txid = started(setting, home), 1
    setting.apply(store, 1, {n: 0 for n in range(4_000)})
    expected = dict.fromkeys(range(4_000), 0)
    for txid in range(2, 122):
        update = {(txid * 7919 + n * n) % 4_000: n for n in range(1 + txid * 37 % 300)}
        for key, delta in update.items():
            expected[key] += delta
        setting.apply(store, txid, update)
        store.snapshot()
        found = manifest(home)
        assert len(found.segments) <= 10
        assert sum(s.rows for s in found.segments) <= 2 * 4_000
        assert files(home) == {s.name for s in found.segments}
    again = restarted(setting, home)
    assert setting.read(again, range(4_000), txid) == list(expected.values())


def test_a_batch_that_changes_nothing_moves_what_is_durable_without_a_file(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {})
    assert store.snapshot() == store.durable() == 1
    assert files(home) == set()
    setting.apply(store, 2, {1: 1})
    store.snapshot()
    before = files(home)
    setting.apply(store, 3, {})
    assert store.snapshot() == 3
    assert files(home) == before
    assert marker(restarted(setting, home)) == 3


def test_nothing_new_is_not_published_again(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 1})
    store.snapshot()
    count = len(home.published)
    store.snapshot()
    store.close()
    assert len(home.published) == count


def test_files_and_folders_are_nobody_elses(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 1})
    store.snapshot()
    assert home.folder is not None
    assert stat.S_IMODE(home.folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in home.folder.iterdir()] == [0o600]


# --- in which order --------------------------------------------------------------------------------------------------


def test_files_are_durable_before_the_manifest_and_deleted_after_it(
    setting: Setting, home: FileHome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every call goes through to the real one; only the order is noted."""
    events = list[str]()
    real_sync, real_unlink, real_publish = os.fsync, Path.unlink, FileHome.publish

    def sync(handle: int) -> None:
        real_sync(handle)
        events.append("folder" if stat.S_ISDIR(os.fstat(handle).st_mode) else "file")

    def unlink(path: Path, missing_ok: bool = False) -> None:
        real_unlink(path, missing_ok)
        events.append("delete")

    def publish(line: FileHome, text: bytes, lease: Lease) -> None:
        assert line.folder is not None
        for segment in read_manifest(text, "").segments:
            assert (line.folder / segment.name).stat().st_size == segment.bytes
        assert {s.name for s in manifest(line).segments} <= files(line), "the old one is still whole"
        real_publish(line, text, lease)
        events.append("publish")

    store = started(setting, home)
    setting.apply(store, 1, {1: 1, 2: 2})
    store.snapshot()
    setting.apply(store, 2, {1: 1, 2: 2})
    monkeypatch.setattr(os, "fsync", sync)
    monkeypatch.setattr(Path, "unlink", unlink)
    monkeypatch.setattr(FileHome, "publish", publish)
    store.snapshot()
    assert events == ["file", "folder", "publish", "delete"]


class Nth:
    """Lets the nth call of several functions fail with a full disk, before or after it is carried out."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, fail: int, after: bool) -> None:
        self.calls, self.fail, self.after = 0, fail, after
        for target, name in (
            (os, "fsync"),
            (os, "open"),
            (Path, "unlink"),
            (FileHome, "publish"),
            (FileHome, "manifest"),
        ):
            self._wrap(monkeypatch, target, name)

    def _wrap(self, monkeypatch: pytest.MonkeyPatch, target: Any, name: str) -> None:
        real = getattr(target, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            failing = self.calls == self.fail
            if failing and not self.after:
                raise OSError(28, "No space left on device")
            result = real(*args, **kwargs)
            if failing:
                raise OSError(28, "No space left on device")
            return result

        monkeypatch.setattr(target, name, call)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_snapshot_may_fail_at_any_call_and_nothing_is_lost(tmp_path: Path, after: bool) -> None:
    """The nth call fails, n = 1, 2, ... until a snapshot needs fewer. Then the process dies, or goes on."""
    fail = 0
    while True:
        fail += 1
        home = FileHome(tmp_path / str(fail) / "counts")
        setting = Setting(MemoryStorage(tmp_path))
        store = started(setting, home)
        for txid in (1, 2, 3):  # so that there are segments to take in, and one to keep
            setting.apply(store, txid, {n: txid for n in range(100 if txid == 1 else 2)})
            store.snapshot()
        setting.apply(store, 4, {n: 4 for n in range(5)})
        with pytest.MonkeyPatch.context() as patching:
            nth = Nth(patching, fail, after)
            with contextlib.suppress(OSError):
                store.snapshot()
            fired = nth.calls >= fail
        again = restarted(setting, home, Lease(2, "dies"))
        at = marker(again)
        assert at in (3, 4)
        assert setting.read(again, [0, 4, 99], at) == ([6, 1, 1] if at == 3 else [10, 5, 1])
        home.holder = None
        assert store.snapshot() == 4  # the other way on: the driver lives and tries again
        setting.apply(store, 5, {0: 1})
        store.snapshot()
        assert setting.read(restarted(setting, home, Lease(3, "later")), [0, 4, 99], 5) == [11, 5, 1]
        if not fired:
            break
    assert fail > 5


def test_after_a_publication_of_unknown_outcome_the_newer_memory_stays(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 1})
    with pytest.MonkeyPatch.context() as patching:
        real = FileHome.publish

        def publish(line: FileHome, text: bytes, lease: Lease) -> None:
            real(line, text, lease)
            raise OSError(5, "the reply was lost")

        patching.setattr(FileHome, "publish", publish)
        with pytest.raises(OSError, match="reply"):
            store.snapshot()
    assert manifest(home).txid == 1
    setting.apply(store, 2, {1: 1})
    store.acquire(FIRST)
    assert marker(store) == 2
    setting.apply(store, 3, {1: 1})
    assert store.snapshot() == 3
    assert setting.read(restarted(setting, home), [1], 3) == [3]


# --- when ------------------------------------------------------------------------------------------------------------


def test_a_snapshot_is_due_after_some_seconds_also_when_idle(setting: Setting, home: FileHome) -> None:
    clock = Hand()
    store = started(setting, home, Pace(bytes=2**62, seconds=30), clock)
    setting.apply(store, 1, {1: 1})
    clock.now += 29
    setting.apply(store, 2, {1: 1})
    settle(store)
    assert store.durable() == 0
    clock.now += 1
    store.groups_of()  # what the runtime asks once a second
    settle(store)
    assert store.durable() == 2
    clock.now += 29
    setting.apply(store, 3, {1: 1})
    settle(store)
    assert store.durable() == 2, "the seconds count from the last snapshot"
    clock.now += 1
    setting.apply(store, 4, {1: 1})
    settle(store)
    assert store.durable() == 4


def test_a_snapshot_is_due_after_so_many_bytes(setting: Setting, home: FileHome) -> None:
    store = started(setting, home, Pace(bytes=100_000, seconds=1e9))
    txid = 0
    while store.durable() == 0:
        txid += 1
        assert txid < 30
        setting.apply(store, txid, {n: 1 for n in range(500)})
        settle(store)
    assert txid > 1, "one batch of 500 keys is less than that"
    assert store.durable() == txid


def test_a_snapshot_is_due_after_so_many_batches_though_every_driver_dies_early(
    setting: Setting, home: FileHome
) -> None:
    pace = Pace(bytes=2**62, seconds=1e9, batches=5)
    store = started(setting, home, pace)
    for txid in (1, 2, 3, 4):
        setting.apply(store, txid, {1: 1})
    settle(store)
    assert store.durable() == 0
    for last in (6, 8, 10):  # each driver applies again what the log keeps, lives for two batches more, and dies
        store = started(setting, home, pace)
        for txid in range(store.durable() + 1, last + 1):
            setting.apply(store, txid, {1: 1})
            settle(store)
        assert store.durable() >= last - 5
    assert store.durable() == 10


def test_a_failing_snapshot_is_told_and_tried_again_later(
    setting: Setting, home: FileHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = Hand()
    store = started(setting, home, Pace(bytes=2**62, seconds=30), clock)
    clock.now += 30
    with monkeypatch.context() as patching, caplog.at_level(logging.WARNING):
        Nth(patching, 1, after=False)
        setting.apply(store, 1, {1: 1})
        settle(store)
    assert "state 'counts': the snapshot failed ([Errno 28] No space left" in caplog.text
    assert "Traceback" not in caplog.text, "a place that is full or away is told in one line"
    assert (store.durable(), marker(store)) == (0, 1)
    clock.now += 29
    setting.apply(store, 2, {1: 1})
    settle(store)
    assert store.durable() == 0
    clock.now += 1
    setting.apply(store, 3, {1: 1})
    settle(store)
    assert store.durable() == 3


def test_a_place_that_is_away_when_a_snapshot_is_due_keeps_no_batch_from_being_applied(
    setting: Setting, home: FileHome, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The files of the last snapshot are looked at before the next one is cut, under the writer's lock."""
    clock = Hand()
    store = started(setting, home, Pace(bytes=2**62, seconds=30, batches=3), clock)
    for txid in (1, 2, 3):
        setting.apply(store, txid, {txid: 1})
    settle(store)
    assert store.durable() == 3
    with monkeypatch.context() as patching, caplog.at_level(logging.WARNING):
        patching.setattr(Snapshots, "_intact", away)
        for txid in range(4, 10):
            setting.apply(store, txid, {txid: 1})
            settle(store)
        store.groups_of()
    assert (store.durable(), marker(store)) == (3, 9)
    assert caplog.text.count("state 'counts': the snapshot failed") == 2, "it is tried every third batch"
    for txid in (10, 11, 12):
        setting.apply(store, txid, {txid: 1})
        settle(store)
    assert store.durable() == 12


def away(*_: Any) -> bool:
    raise FilesUnavailableError("the store is away, on purpose")


def test_close_takes_a_last_snapshot(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 1})
    store.close()
    again = restarted(setting, home)
    assert marker(again) == 1
    assert setting.read(again, [1], 1) == [1]


def test_snapshots_beside_running_commits_are_cuts_at_one_txid(setting: Setting, home: FileHome) -> None:
    """Every batch adds 1 to all keys: in a snapshot at txid S every value is S, and every previous one S - 1."""
    store = started(setting, home, Pace(bytes=1, seconds=0))
    setting.apply(store, 1, {n: 1 for n in range(3_000)})
    txid, seen = 1, set[int]()
    while len(seen) < 5 and txid < 10_000:
        txid += 1
        setting.apply(store, txid, {n: 1 for n in range(3_000)})
        if txid % 20 == 0:
            settle(store)
            copy = opened(setting, home)
            at = copy.report().groups[0].marker
            assert at is not None
            assert set(setting.read(copy, range(3_000), at)) == {at}
            if at > 1:
                assert set(setting.read(copy, range(3_000), at - 1)) == {at - 1}
            seen.add(at)
    assert len(seen) == 5
    store.close()
    assert marker(restarted(setting, home)) == txid


# --- several drivers -------------------------------------------------------------------------------------------------


def test_a_driver_that_may_not_publish_any_more_stops_and_leaves_the_files_alone(
    setting: Setting, home: FileHome
) -> None:
    home.holder = FIRST
    store = started(setting, home)
    setting.apply(store, 1, {1: 1, 2: 2})
    store.snapshot()
    home.holder = SECOND
    later = restarted(setting, home)
    setting.apply(later, 2, {1: 10}, lease=SECOND)
    later.snapshot()
    setting.apply(store, 2, {1: 1})  # in this driver's own memory, of which nobody hears
    before = files(home)
    with pytest.raises(FencedError, match="epoch 2"):
        store.snapshot()
    assert files(home) == before
    with pytest.raises(FencedError):
        setting.apply(store, 3, {1: 1})
    store.close()
    assert files(home) == before
    assert setting.read(restarted(setting, home, Lease(3, "third")), [1, 2], 2) == [11, 2]


def test_acquiring_reads_what_was_published_since_the_store_was_opened(setting: Setting, home: FileHome) -> None:
    first = started(setting, home)
    second = opened(setting, home)
    assert second.report().groups[0].marker == 0
    setting.apply(first, 1, {1: 7})
    first.snapshot()
    second.acquire(SECOND)
    assert marker(second) == 1
    assert setting.read(second, [1], 1) == [7]


def test_half_written_files_of_earlier_drivers_are_swept_and_those_of_later_ones_kept(
    setting: Setting, home: FileHome
) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 7})
    store.snapshot()
    named = files(home)
    assert home.folder is not None
    log = setting.identity.log
    ours = [f"9-{epoch}-{log}-00000000.arrow" for epoch in (1, 2, 3)]
    kept = {*ours[1:], "9-1-another-00000000.arrow", "mine.txt"}
    for name in (*kept, ours[0]):
        (home.folder / name).write_bytes(b"half")
    restarted(setting, home, SECOND)
    assert files(home) == named | kept


def test_a_drop_leaves_foreign_files_alone(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 7})
    store.snapshot()
    assert home.folder is not None
    (home.folder / "mine.txt").write_text("keep")
    store.drop()
    assert files(home) == {"mine.txt"}


def test_a_drop_without_a_lease_deletes_the_files_and_leaves_the_log_to_its_owner(
    setting: Setting, home: FileHome
) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 7})
    store.snapshot()
    dropping = opened(setting, home)
    dropping.drop()
    assert dropping.report().absent
    dropping.close()
    assert files(home) == set()
    with pytest.raises(StateLostError, match="is missing"):
        opened(setting, home).acquire(SECOND)


def test_acquiring_while_a_snapshot_is_published_does_not_load_an_older_state(setting: Setting, home: FileHome) -> None:
    store = started(setting, home, Pace(bytes=1, seconds=0))
    stop = threading.Event()
    errors = list[BaseException]()

    def heal() -> None:
        while not stop.is_set():
            try:
                store.acquire(FIRST)
            except BaseException as error:
                errors.append(error)
                return

    thread = threading.Thread(target=heal)
    thread.start()
    for txid in range(1, 300):
        setting.apply(store, txid, {1: 1})
    stop.set()
    thread.join()
    assert errors == []
    assert setting.read(store, [1], 299) == [299]


def test_the_manifest_is_readable_text_and_holds_no_values(setting: Setting, home: FileHome) -> None:
    store = started(setting, home)
    setting.apply(store, 1, {1: 1234567})
    store.snapshot()
    text = home.manifest()
    assert text is not None
    assert re.match(rb'\{"format":2,"topology":"wordcount","state":"counts"', text)
    assert b"1234567" not in text
