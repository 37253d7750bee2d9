"""What the tests that kill drivers share."""

from collections.abc import Iterator

import pytest

from tests.faults.driver_forks import Zygote


@pytest.fixture(scope="module")
def zygote() -> Iterator[Zygote]:
    """The process that forks a module's drivers."""
    with Zygote() as zygote:
        yield zygote
