"""Tables, aggregates and joins equal the database's own queries, whoever is killed while writers go on."""

import random
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spouts.postgres_changes.shop import Shop, found
from tests.support.postgres import PostgresServer
from tests.support.soak import Soak
from trident.testing import crash_at, start_local
from trident.testing.crashes import DriverCrashedError

pytestmark = pytest.mark.usefixtures("nothing_left_running")

POINTS = (
    "plan.made",
    "emit.before",
    "emit.after",
    "run.after",
    "freeze.before",
    "freeze.after",
    "commit.state.after",
    "committed.before",
    "committed.after",
    "success.before",
    "success.after",
)
KILLS = ("backends", "server", "stop", *POINTS)


@pytest.fixture
def shop(mortal: PostgresServer) -> Iterator[Shop]:
    shop = Shop(mortal, f"shop_{uuid.uuid4().hex[:8]}")
    yield shop
    shop.close()


def through(shop: Shop, server: PostgresServer, folder: Path, kills: list[str], seed: int) -> None:
    """Run the program with a kill in each of its lives, while writers go on, and compare its states at the end."""
    chance = random.Random(seed)
    with shop.writers(seed):
        for kill in kills:
            live(shop, server, folder, kill, chance)
    with start_local(shop.topology(), name="shop", checkpointLocation=folder) as running:
        running.processAllAvailable(timeout=60)
        states, expected = found(running), shop.expected()
        for name, rows in expected.items():
            assert states[name] == rows, f"{name}, after {kills} with seed {seed}"
    assert shop.transactions > len(kills)


def live(shop: Shop, server: PostgresServer, folder: Path, kill: str, chance: random.Random) -> None:
    """Start the program, and end it by a kill."""
    topology = shop.topology(maxRowsPerBatch=chance.choice((1, 5, 1000)))
    if kill in POINTS:
        with crash_at(kill, chance.randint(1, 4)):
            running = start_local(topology, name="shop", checkpointLocation=folder)
            try:
                with pytest.raises(DriverCrashedError):
                    running.awaitTermination(timeout=60)
            finally:
                running.stop()
        return
    with start_local(topology, name="shop", checkpointLocation=folder) as running:
        time.sleep(chance.random() / 2)
        if kill == "backends":
            server.run(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'trident-pyspark'"
            )
        elif kill == "server":
            server.restart()
        time.sleep(chance.random() / 2)


def drawn(chance: random.Random, count: int) -> list[str]:
    """Return kills: each kind as often as the others, in a random order."""
    kills = [KILLS[at % len(KILLS)] for at in range(count)]
    chance.shuffle(kills)
    return kills


def test_states_equal_the_database_through_kills(shop: Shop, mortal: PostgresServer, tmp_path: Path) -> None:
    through(shop, mortal, tmp_path, drawn(random.Random(3), 21), seed=3)


@pytest.mark.soak(weight=2)
def test_states_equal_the_database_through_many_kills(soak: Soak, mortal: PostgresServer, tmp_path: Path) -> None:
    for number, chance in enumerate(soak.draws(full=5)):
        shop = Shop(mortal, f"shop_{uuid.uuid4().hex[:8]}")
        seed = chance.randrange(1_000_000)
        through(shop, mortal, tmp_path / str(number), drawn(chance, 20), seed)
        shop.close()
