"""A served topology, on this process's embedded engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.server.counting import counting
from trident import DRPCClient
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout


@dataclass
class Serving:
    """A running topology, its feeder, and how to ask its server."""

    running: RunningTopology
    feeder: FeederBatchSpout
    url: str
    checkpoint: Path

    def feed(self, *words: str) -> None:
        self.feeder.feed([(word,) for word in words])
        self.running.processAllAvailable()

    def client(self, **options: Any) -> DRPCClient:
        return DRPCClient(self.url, **options)

    def post(self, path: str, content: Any = None, **options: Any) -> httpx.Response:
        return httpx.post(self.url + path, json=content, timeout=30, **options)

    def get(self, path: str, **options: Any) -> httpx.Response:
        return httpx.get(self.url + path, timeout=30, **options)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    topology, feeder = counting()
    with (
        topology.start(engine="embedded", name="wc", checkpointLocation=tmp_path) as running,
        running.serve() as server,
    ):
        at = Serving(running, feeder, server.url, tmp_path)
        at.feed("dog", "cat", "dog")
        yield at
