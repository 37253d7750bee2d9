"""The client that blocks is the asyncio client, without asyncio."""

from pathlib import Path

import pytest

from tests.house.blocking_client import FILES, blocking


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_client_that_blocks_is_written_from_the_other_one(file: Path) -> None:
    assert FILES[file].read_text(encoding="utf-8") == blocking(file), "run: python -m tests.house.blocking_client"
