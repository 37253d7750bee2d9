"""Requests that nobody waits for any more: the server ends their work before its next step."""

import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.support.waiting import wait_until
from trident import DRPCClient, TridentTopology
from trident.errors import DRPCTimeoutError
from trident.run.running import RunningTopology
from trident.spouts import FeederBatchSpout


@dataclass
class Steps:
    """A function of two steps, the first of which takes as long as the request says."""

    began: list[str] = field(default_factory=list)
    went_on: list[str] = field(default_factory=list)

    def first(self, seconds: str) -> str:
        self.began.append(seconds)
        time.sleep(float(seconds))
        return seconds

    def second(self, seconds: str) -> str:
        self.went_on.append(seconds)
        return seconds


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[tuple[Steps, RunningTopology, str]]:
    steps, topology = Steps(), TridentTopology()
    topology.newStream("words", FeederBatchSpout("word string")).peek("word", lambda word: None)
    stream = topology.newDRPCStream("two", "seconds string")
    stream.each("seconds", steps.first, "a string").each("a", steps.second, "b string")
    with (
        topology.start(engine="embedded", name="given-up", checkpointLocation=tmp_path) as running,
        running.serve() as server,
    ):
        yield steps, running, server.url


def test_a_request_whose_time_is_over_takes_no_further_step(asked: tuple[Steps, RunningTopology, str]) -> None:
    steps, _, url = asked
    with DRPCClient(url) as client:
        assert [row.b for row in client.execute("two", "0")] == ["0"]
        with pytest.raises(DRPCTimeoutError, match=r"no answer within 0\.5 s"):
            client.execute("two", "0.8", timeout=0.5)
    time.sleep(0.5)
    assert steps.began == ["0", "0.8"] and steps.went_on == ["0"]


def test_a_request_whose_client_has_gone_takes_no_further_step(asked: tuple[Steps, RunningTopology, str]) -> None:
    import httpx

    steps, _, url = asked
    host, port = url.removeprefix("http://").split(":")
    body = b'{"args": ["0.5"]}'
    with socket.create_connection((host, int(port))) as client:
        head = f"POST /drpc/two HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n"
        client.sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        wait_until(lambda: steps.began)
    gone = 'path="/drpc/{function}",status="499"} 1.0'
    wait_until(lambda: gone in httpx.get(f"{url}/metrics").text)
    time.sleep(0.5)
    assert steps.began == ["0.5"] and not steps.went_on
