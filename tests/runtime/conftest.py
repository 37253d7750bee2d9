"""The contract's asserts tell what they compared, though its module is imported and not collected."""

from collections.abc import Iterator

import pytest

import trident

pytest.register_assert_rewrite("tests.runtime.log_contract")


@pytest.fixture
def nothing_left_running() -> Iterator[None]:
    """No topology of a test outlives it."""
    yield
    for running in trident.active():
        running.stop()
