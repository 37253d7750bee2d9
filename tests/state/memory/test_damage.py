"""What is on disk cannot be trusted: every damage ends in one typed error, and the way out stays open."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.state.memory.homes import NEVER, MemoryStorage
from trident.base.errors import StateCorruptError, StateLostError, StateOwnedError, StateShapeError
from trident.testing.contracts.stores import FIRST, SECOND, FileHome, Setting
from trident_state.memory import MemoryStore
from trident_state.state_shape import StateKind


@pytest.fixture
def home(tmp_path: Path) -> FileHome:
    return FileHome(tmp_path / "counts")


@pytest.fixture
def setting(tmp_path: Path, home: FileHome) -> Setting:
    """A state of two segments at txid 2."""
    setting = Setting(MemoryStorage(tmp_path))
    store = opened(setting, home)
    store.create(FIRST, 0)
    store.acquire(FIRST)
    for txid, keys in ((1, 500), (2, 5)):
        setting.apply(store, txid, {n: 1 for n in range(keys)})
        store.snapshot()
    return setting


def opened(setting: Setting, home: FileHome) -> MemoryStore:
    return MemoryStore(setting.identity, setting.shape, setting.kind, home, None, NEVER)


def segments(home: FileHome) -> list[Path]:
    assert home.folder is not None
    return sorted(home.folder.glob("*"), key=lambda path: path.stat().st_size)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "a bit flipped at the beginning": lambda path: flip(path, 9),
    "a bit flipped in the middle": lambda path: flip(path, path.stat().st_size // 2),
    "a bit flipped at the end": lambda path: flip(path, -1),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "emptied": lambda path: path.write_bytes(b""),
    "something after it": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "another file in its place": lambda path: path.write_bytes(segments(FileHome(path.parent))[-1].read_bytes()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_told_and_nothing_is_read_from_it(setting: Setting, home: FileHome, damage: str) -> None:
    file = segments(home)[0]
    DAMAGES[damage](file)
    store = opened(setting, home)
    assert store.report().groups[0].marker == 2, "the report tells what should be there"
    for use in (lambda: store.acquire(SECOND), lambda: setting.read(store, [1], None)):
        with pytest.raises(StateCorruptError) as caught:
            use()
        assert f"state 'counts': file {file.name} of its snapshot at txid 2 is damaged" in str(caught.value)
        assert "topology.reset(name, checkpointLocation)" in str(caught.value)
    store.drop()
    assert segments(home) == []


def test_a_file_that_is_gone_is_a_lost_state(setting: Setting, home: FileHome) -> None:
    segments(home)[0].unlink()
    with pytest.raises(StateLostError, match=r"file .* of its snapshot at txid 2 is missing.*topology\.reset"):
        opened(setting, home).acquire(SECOND)


def test_a_folder_that_is_gone_is_a_lost_state(setting: Setting, home: FileHome) -> None:
    assert home.folder is not None
    home.folder.rename(home.folder.with_name("elsewhere"))
    with pytest.raises(StateLostError, match="is missing"):
        opened(setting, home).acquire(SECOND)


def rewrite(home: FileHome, **changed: Any) -> None:
    text = home.manifest()
    assert text is not None
    home.publish(json.dumps({**json.loads(text), **changed}).encode(), FIRST)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "truncated"),
        (b"[]", "Expected `object`"),
        (b"\xff\xfe", "malformed"),
        (b'{"format":1}', "missing required field"),
    ],
    ids=repr,
)
def test_a_manifest_that_is_none_is_told(setting: Setting, home: FileHome, text: bytes, reason: str) -> None:
    home.publish(text, FIRST)
    store = opened(setting, home)
    for use in (store.report, lambda: store.acquire(SECOND)):
        with pytest.raises(StateCorruptError, match=f"state 'counts': the manifest .* cannot be read: .*{reason}"):
            use()
    store.drop()


def test_a_manifest_of_a_later_version_is_refused(setting: Setting, home: FileHome) -> None:
    rewrite(home, format=3)
    with pytest.raises(StateCorruptError, match="has format 3, this version reads format 2; start it with the version"):
        opened(setting, home).report()


@pytest.mark.parametrize("name", ["../other/1-1-00000000.arrow", "/etc/passwd", "1-1-0000000.arrow", ""])
def test_a_manifest_leads_to_no_other_file(setting: Setting, home: FileHome, name: str) -> None:
    text = home.manifest()
    assert text is not None
    (first, *rest) = json.loads(text)["segments"]
    rewrite(home, segments=[{**first, "name": name}, *rest])
    with pytest.raises(StateCorruptError, match="which is not a segment"):
        opened(setting, home).acquire(SECOND)


def test_another_shape_is_reported_and_not_read(setting: Setting, home: FileHome) -> None:
    for other in (
        replace(setting, value=pa.string()),
        replace(setting, kind=StateKind.TRANSACTIONAL),
        replace(setting, keys=pa.schema({"word": pa.string(), "day": pa.date32()})),
    ):
        store = opened(other, home)
        report = store.report()
        assert (report.fingerprint, report.kind) == (setting.shape.fingerprint, setting.kind)
        with pytest.raises(
            StateShapeError,
            match=r"its snapshot has opaque \(word string\) -> bigint by Count, but "
            r"the",
        ):
            store.acquire(SECOND)


def test_a_snapshot_of_another_state_is_reported_and_not_read(setting: Setting, home: FileHome) -> None:
    other = replace(setting, identity=replace(setting.identity, log="log-2"))
    store = opened(other, home)
    assert store.report().identity == setting.identity
    with pytest.raises(StateOwnedError, match="state 'counts': expected a snapshot .*"):
        store.acquire(SECOND)
