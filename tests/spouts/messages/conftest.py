"""What the tests of real queues share."""

import multiprocessing
from typing import Any

import pytest


@pytest.fixture(scope="module")
def forks() -> Any:
    """Children from a server that has everything imported: a driver's life takes no second."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        ["tests.spouts.messages.word_driver", "trident.compiler.arrow.engine", "trident_state.redis", "pandas"]
    )
    return context
