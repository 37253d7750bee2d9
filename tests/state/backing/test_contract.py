"""A state over a map that somebody brings keeps the contract of all stores, as far as its map allows."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.state.backing.maps import BackingStorage, PlainMap
from trident.testing.contracts.stores import Storage, StoreContract


def _storage(folder: Path, **how: object) -> Iterator[Storage]:
    storage = BackingStorage(folder, **how)  # type: ignore[arg-type]
    yield storage
    storage.close()


class TestFenced(StoreContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        yield from _storage(tmp_path)


class TestInPieces(StoreContract):
    """Every batch is larger than what one call takes."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        yield from _storage(tmp_path, options={"most": 40, "values": "json"})


@pytest.mark.soak  # `make test` has such a map in tests/testing/test_contracts.py
class TestPlain(StoreContract):
    """No conditional put: all of it, because here one driver comes after the other."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        yield from _storage(tmp_path, made=PlainMap)
