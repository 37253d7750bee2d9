"""A driver is killed, or stopped with SIGSTOP: a standby goes on within its lease's time and two seconds, exactly."""

import signal
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from tests.faults.standby_rounds import Place
from tests.support.soak import Soak
from tests.support.waiting import wait_until

LEASE, SLACK = 1.0, 2.0


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """In a folder, or on a server, as the test's parameter says."""
    server = request.getfixturevalue("redis_server") if request.param == "redis" else None
    made = Place(tmp_path, LEASE, server)
    yield made
    made.end()


@pytest.mark.parametrize(("place", "how"), [("sqlite", signal.SIGKILL), ("redis", signal.SIGSTOP)], indirect=["place"])
def test_a_standby_goes_on_in_time_and_exactly(place: Place, how: signal.Signals) -> None:
    driver = place.begin()
    waiting = place.start(standby=True)
    assert place.round(driver, waiting, how) < LEASE + SLACK
    waiting.send(signal.SIGTERM)
    assert waiting.ends() == 0, waiting.text
    place.check_exact()


@pytest.mark.soak
@pytest.mark.parametrize("place", ["sqlite"], indirect=True)
def test_one_of_several_standbys_takes_over_and_the_others_wait_on(place: Place) -> None:
    driver = place.begin()
    waiting = [place.start(standby=True) for _ in range(3)]
    for epoch in (2, 3, 4):
        place.seconds_to_commit(driver, signal.SIGKILL)
        wait_until(lambda: any("starts on engine" in each.text for each in waiting))
        (driver,) = (each for each in waiting if "starts on engine" in each.text)
        waiting.remove(driver)
        assert place.epoch() == epoch
        assert all(each.process.poll() is None for each in waiting)
        place.check_exact()


@pytest.mark.soak(weight=2)
@pytest.mark.parametrize("place", ["sqlite", "redis"], indirect=True)
def test_standbys_take_over_again_and_again(place: Place, soak: Soak) -> None:
    place.lease, driver = 2.0, place.begin()
    for chance in soak.draws(50):
        waiting = place.start(standby=True)
        how = chance.choice([signal.SIGKILL, signal.SIGSTOP])
        slack = SLACK if soak.seconds != inf else 2 * SLACK  # among other tests on a busy machine
        assert place.round(driver, waiting, how) < place.lease + slack
        driver = waiting
