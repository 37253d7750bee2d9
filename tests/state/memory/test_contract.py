"""The memory store keeps the contract of all stores."""

from pathlib import Path

import pytest

from tests.state.contract import ExpiryContract, Place, StoreContract
from tests.state.memory.homes import MemoryPlace


class TestMemoryStore(StoreContract, ExpiryContract):
    @pytest.fixture
    def place(self, tmp_path: Path) -> Place:
        return MemoryPlace(tmp_path)
