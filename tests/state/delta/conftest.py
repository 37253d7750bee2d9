"""Folders for states in Delta tables, in memory: the states sync every commit, and no power fails here."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

_MEMORY = Path("/dev/shm")  # noqa: S108 (where fsync costs nothing)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Return an empty folder, in memory if the machine has such a place."""
    with tempfile.TemporaryDirectory(dir=_MEMORY if _MEMORY.is_dir() else None) as name:
        yield Path(name)
