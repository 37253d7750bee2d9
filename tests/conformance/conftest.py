"""Cases that compute a batch of tuples run on both engines; nothing is left running."""

import pytest

from tests.compiler.conftest import engine, on_spark

__all__ = ["engine", "on_spark"]


@pytest.fixture(autouse=True)
def stop_what_still_runs(nothing_left_running: None) -> None:
    """Stop what each test left running."""
