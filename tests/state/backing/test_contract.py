"""A state over a map that somebody brings keeps the contract of all stores, as far as its map allows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.state.backing.maps import BackingPlace, PlainMap
from tests.state.contract import Place, StoreContract


def _place(folder: Path, **how: object) -> Iterator[Place]:
    place = BackingPlace(folder, **how)  # type: ignore[arg-type]
    yield place
    place.close()


class TestFenced(StoreContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        yield from _place(tmp_path)


class TestInPieces(StoreContract):
    """Every batch is larger than what one call takes."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        yield from _place(tmp_path, options={"most": 40, "values": "json"})


class TestPlain(StoreContract):
    """No conditional put: all of it, because here one driver comes after the other."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Iterator[Place]:
        yield from _place(tmp_path, made=PlainMap)
