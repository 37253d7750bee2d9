"""Requests at random: no crash, no 500, no error in the log of the server, and no memory that stays."""

import pytest

from tests.server.request_fuzzer import fuzz
from tests.server.slow_connections import measure
from tests.support.soak import Soak


def test_requests_at_random() -> None:
    told = fuzz(7, 1500)
    assert not told.wrong and {200, 400, 401, 403, 404, 405, 421} <= {*told.statuses}


@pytest.mark.soak(weight=3)
def test_many_requests_at_random(soak: Soak) -> None:
    for draw in soak.draws(10):
        seed = draw.randrange(1 << 32)
        told = fuzz(seed, 50_000)
        assert not told.wrong, f"seed {seed}"


@pytest.mark.soak
def test_others_are_answered_beside_many_slow_connections() -> None:
    """The program prints how fast; here only that all are answered."""
    told = measure(slow=2_000, asked=200)
    assert told.failed == 0
