"""The contract of outputs, for a Delta table, with and without a key."""

import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable

from tests.outputs.delta.outlets import rows, sink_of
from trident.outputs.delta.outlet import DeltaOutlet
from trident.outputs.run_identity import RunIdentity
from trident.testing import OutputContract, OutputPlace
from trident.testing.contracts.outputs import OUTPUT, Take


class Rows:
    """A table, and the outputs that are opened for it."""

    def __init__(self, path: Path, key: tuple[str, ...]) -> None:
        self._path, self._key = path / "table", key
        self._saved = 0

    def open(self, run: RunIdentity) -> Take:
        sink = sink_of(self._path, "word string", OUTPUT, key=self._key)
        return DeltaOutlet(sink, run, lambda result: [result]).take

    def words(self) -> list[str]:
        return [word for (word,) in rows(self._path)] if self._path.exists() else []

    def save(self) -> Path:
        self._saved += 1
        return Path(shutil.copytree(self._path, self._path.parent / f"saved{self._saved}"))

    def restore(self, saved: Path) -> None:
        shutil.rmtree(self._path)
        shutil.copytree(saved, self._path)

    def take_away(self) -> None:
        DeltaTable(str(self._path)).delete()


class DeltaContract(OutputContract):
    gapless = False
    key: tuple[str, ...] = ()

    @pytest.fixture
    def place(self, tmp_path: Path) -> OutputPlace:
        return Rows(tmp_path, self.key)


class TestAppended(DeltaContract):
    pass


class TestByKey(DeltaContract):
    key = ("word",)


del DeltaContract, OutputContract  # pytest would run them
