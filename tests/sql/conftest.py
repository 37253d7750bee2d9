"""The orders of `orders.py`, running on this process's embedded engine."""

from collections.abc import Iterator

import pytest

from tests.sql.orders import order, orders
from tests.support.server import RedisServer
from trident.run.running import RunningTopology
from trident.testing.local import start_local


@pytest.fixture(scope="module")
def shop(_one_redis: RedisServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningTopology]:
    """200 orders in five batches, for tests that only read."""
    folder = tmp_path_factory.mktemp("shop")
    topology, feeder = orders(_one_redis.url, folder)
    with start_local(topology, name=folder.name, checkpointLocation=folder / "checkpoint") as running:
        for first in range(0, 200, 40):
            feeder.feed([order(number) for number in range(first, first + 40)])
            running.processAllAvailable()
        yield running
