from collections.abc import Iterator

import pytest

import trident


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    for running in trident.active():
        running.stop()
