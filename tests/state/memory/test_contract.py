"""The memory store keeps the contract of all stores."""

from pathlib import Path

import pytest

from tests.state.memory.homes import MemoryStorage
from trident.testing.contracts.stores import ExpiryContract, Storage, StoreContract


class TestMemoryStore(StoreContract, ExpiryContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return MemoryStorage(tmp_path)
