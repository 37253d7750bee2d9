"""Cases that compute a batch of tuples run on both engines; nothing is left running."""

from collections.abc import Iterator

import pytest

import trident
from tests.compiler.conftest import engine, on_spark

__all__ = ["engine", "on_spark"]


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    for running in trident.active():
        running.stop()
