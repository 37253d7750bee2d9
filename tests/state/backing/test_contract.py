"""A state over a map that somebody brings keeps the contract of all stores, as far as its map allows."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.state.backing.maps import BackingStorage, PlainMap, interrupt_before
from trident.testing.contracts.stores import Storage, StoreContract
from trident_state.store import Store


def _storage(folder: Path, **how: object) -> Iterator[Storage]:
    storage = BackingStorage(folder, **how)  # type: ignore[arg-type]
    yield storage
    storage.close()


class InterruptedContract(StoreContract):
    """The contract with drops that are interrupted before each of their writes."""

    @pytest.fixture
    def interrupt(self) -> Callable[[Store, int], None]:
        return interrupt_before


class TestFenced(InterruptedContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        yield from _storage(tmp_path)


class TestInPieces(InterruptedContract):
    """Every batch is larger than what one call takes."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        yield from _storage(tmp_path, options={"most": 40, "values": "json"})


@pytest.mark.soak  # `make test` has such a map in tests/testing/test_contracts.py
class TestPlain(InterruptedContract):
    """No conditional put: all of it, because here one driver comes after the other."""

    @pytest.fixture
    def storage(self, tmp_path: Path) -> Iterator[Storage]:
        yield from _storage(tmp_path, made=PlainMap)
