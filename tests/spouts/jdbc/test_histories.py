"""Random histories: each row that was ever committed is read once, or a table that is another one is refused."""

import os
import random
import uuid
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.spouts.jdbc.histories import History
from tests.support.postgres import PostgresServer
from tests.support.soak import Soak


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    """A server of these tests alone, which they restart and put back to copies."""
    with PostgresServer() as server:
        yield server


def lived_through(server: PostgresServer, chance: random.Random, case: str, faults: float) -> str:
    history = History(server, f"h_{uuid.uuid4().hex[:8]}", chance, faults)
    try:
        return history.run(30)
    except AssertionError as error:
        raise AssertionError(f"{case}, {history.relation}: {error}; after {' '.join(history.done)}") from error


@pytest.mark.parametrize("seed", range(6))
def test_some_histories_are_exact(server: PostgresServer, seed: int) -> None:
    assert lived_through(server, random.Random(f"some/{seed}"), f"case some/{seed}", 0) in ("exact", "false alarm")


@pytest.mark.soak
def test_histories_are_exact_or_refused(server: PostgresServer, soak: Soak) -> None:
    """Also through crashes of the server, older copies of it, and tables that are emptied and filled again."""
    ends: Counter[str] = Counter()
    for number, chance in enumerate(soak.draws(int(os.environ.get("HISTORIES", "300")))):
        ends[lived_through(server, chance, f"case {soak.seed}/{number}", 0.2)] += 1
    soak.tell(f"histories: {dict(ends)}")
    assert ends["exact"] > ends["false alarm"]
