"""Waiting for what another thread or process is about to do."""

import time
from collections.abc import Callable


def wait_until(condition: Callable[[], object], seconds: float = 15) -> None:
    """Return once `condition()` is true; raise AssertionError if it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not so within {seconds} s"
        time.sleep(0.01)
