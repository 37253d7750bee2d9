"""Keys that were removed: their room is taken back, and no file brings one of them back."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.testing.contracts.stores import FIRST, SECOND, FileHome, Setting
from trident.testing.contracts.stores.fixtures import entries, every_kind
from trident_state.memory import MemoryStore
from trident_state.memory import store as memory
from trident_state.state_shape import StateKind, replacing

PUT = replacing()


def opened(setting: Setting, home: FileHome) -> MemoryStore:
    return MemoryStore(setting.identity, setting.shape, setting.kind, home, pace=NEVER)


def started(home: FileHome, kind: StateKind = StateKind.OPAQUE) -> tuple[Setting, MemoryStore]:
    setting = Setting(MemoryStorage(Path()), kind, combine=PUT)
    store = opened(setting, home)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    return setting, store


def size(store: MemoryStore) -> int:
    assert store._entries is not None
    return len(store._entries)


@every_kind
@pytest.mark.parametrize("lasting", [False, True])
def test_a_state_whose_keys_come_and_go_does_not_grow(tmp_path: Path, kind: StateKind, lasting: bool) -> None:
    home = FileHome(tmp_path / "counts" if lasting else None)
    setting, store = started(home, kind)
    setting.apply(store, 1, {n: n for n in range(1_000)})
    for txid in range(2, 60):
        first = 1_000 * txid
        gone = {n: None for n in range(first - 1_000, first)} if txid > 2 else {}
        setting.apply(store, txid, {**{n: n for n in range(first, first + 1_000)}, **gone})
        if lasting and txid % 5 == 0:
            store.snapshot()
    assert size(store) < 12_000, "58,000 keys came"
    last = {f"w{n}": n for n in [*range(1_000), *range(59_000, 60_000)]}
    assert {key: value for (key,), value in entries(store, None).items()} == last
    if lasting:
        store.snapshot()
        again = opened(setting, home)
        again.acquire(SECOND)
        assert entries(again, None) == entries(store, None)
        assert sum(file.stat().st_size for file in (tmp_path / "counts").iterdir()) < 400_000


_deltas = st.dictionaries(st.integers(0, 6), st.sampled_from([None, None, 1, 2, 3]), max_size=5)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(_deltas, st.sampled_from(["", "", "collect", "snapshot", "restart", "torn"])), max_size=14))
def test_whatever_is_removed_collected_saved_and_loaded_the_state_is_what_its_batches_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: list[tuple[dict[int, Any], str]]
) -> None:
    monkeypatch.setattr(memory, "_COLLECT_FROM", 1)
    shutil.rmtree(tmp_path / "counts", ignore_errors=True)
    (tmp_path / "counts.manifest").unlink(missing_ok=True)
    home = FileHome(tmp_path / "counts")
    setting, store = started(home)
    model: dict[tuple[str], int] = {}
    before: dict[tuple[str], int] = {}
    epoch = 1
    for txid, (deltas, then) in enumerate(steps, start=1):
        setting.apply(store, txid, deltas, lease=FIRST if epoch == 1 else type(FIRST)(epoch, "later"))
        before, model = model, dict(model)
        for n, value in deltas.items():
            model.pop((f"w{n}",), None)
            if value is not None:
                model[(f"w{n}",)] = value
        if then == "collect":
            store._collect()
        if then == "torn":
            for file in (tmp_path / "counts").glob("*.arrow"):
                file.unlink()
        if then in ("snapshot", "restart", "torn"):
            store.snapshot()
        if then in ("restart", "torn"):
            epoch += 1
            store = opened(setting, home)
            store.acquire(type(FIRST)(epoch, "later"))
        assert entries(store, txid) == model
        assert entries(store, txid - 1) == before


@pytest.mark.parametrize("removed", [4, 10])
def test_what_an_older_file_still_holds_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    """Some keys are removed: the file stays, and so must what tells that they are gone. All: no file may stay."""
    monkeypatch.setattr(memory, "_COLLECT_FROM", 1)
    home = FileHome(tmp_path / "counts")
    setting, store = started(home)
    setting.apply(store, 1, {n: n for n in range(10)})
    store.snapshot()
    setting.apply(store, 2, {n: None for n in range(removed)})
    for txid in (3, 4):
        setting.apply(store, txid, {})
        store._collect()
        store.snapshot()
    again = opened(setting, home)
    again.acquire(SECOND)
    assert entries(again, 4) == {(f"w{n}",): n for n in range(removed, 10)}


def test_a_file_that_was_deleted_under_a_running_driver_is_written_again_with_what_it_held(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    home = FileHome(tmp_path / "counts")
    setting, store = started(home)
    for txid in range(1, 4):
        setting.apply(store, txid, {n: n for n in range(100 >> (2 * txid), 100)})
        store.snapshot()
    shutil.rmtree(tmp_path / "counts")
    store.close()
    assert "of the snapshot was removed or truncated; the state writes it again" in caplog.text
    again = opened(setting, home)
    again.acquire(SECOND)
    assert entries(again, 3) == entries(store, 3) and len(entries(again, 3)) == 99
