"""Requests of somebody who means harm, or errs: each gets a typed answer, and the topology goes on beside them."""

import socket
import time
from urllib.parse import urlsplit

import httpx
import pytest

from tests.server.conftest import Serving
from tests.server.raw import connect, read
from trident.server.limits import Limits


@pytest.mark.parametrize("depth", [10, 800, 900, 950, 980, 990, 1_000, 100_000])
@pytest.mark.parametrize(("path", "name"), [("/drpc/count", "args"), ("/state/counts", "keys")])
def test_a_deep_body_is_refused(serving: Serving, path: str, name: str, depth: int) -> None:
    body = f'{{"{name}": [{"[" * depth}{"]" * depth}]}}'
    told = httpx.post(serving.url + path, content=body, headers={"content-type": "application/json"}, timeout=30)
    assert told.status_code == 400 and told.json()["error"]["type"] in (
        "InvalidBody",
        "DRPCArgumentError",
        "StateKeyError",
    )


INNER = b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n"
POST = b"POST /state/counts HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (POST + b"content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (POST + b"content-length: 0\r\ncontent-length: 45\r\n\r\n", 400),
        (POST + b"transfer-encoding: xchunked\r\n\r\n", 400),
        (POST + b"content-length: +45\r\n\r\n", 400),
        (b"GET /state HTTP/1.1\r\nhost : 127.0.0.1\r\n\r\n", 400),
    ],
    ids=["length and chunks", "two lengths", "unknown coding", "length with a sign", "host with a blank"],
)
def test_what_two_parsers_read_in_two_ways_gets_one_answer(serving: Serving, text: bytes, status: int) -> None:
    """Otherwise a proxy and the server may disagree about where the second request begins."""
    with connect(serving.url) as connection:
        connection.sendall(text + INNER)
        answer = read(connection, idle=1.0)
    assert answer.status == status
    assert answer.body.count(b"HTTP/1.") == 0, "nothing of the body was answered as a request"


def test_a_body_is_no_head_however_it_arrives(serving: Serving) -> None:
    """One of over 64 KiB often comes in one piece, with its end."""
    keys = [f"{'k' * 90}{n}" for n in range(5_000)]
    for _ in range(3):
        assert serving.post("/state/counts", {"keys": keys}).json()["values"] == [None] * 5_000


def test_batches_and_others_go_on_beside_bodies_that_never_end_and_functions_that_sleep(serving: Serving) -> None:
    with serving.running.serve(limits=Limits(bodySecs=1.0, timeoutSecs=2.0)) as server:
        place = urlsplit(server.url)
        head = f"POST /drpc/count HTTP/1.1\r\nhost: {place.netloc}\r\ncontent-type: application/json\r\n"
        slow = [socket.create_connection((place.hostname, place.port), timeout=30) for _ in range(100)]
        for each in slow[:50]:
            each.sendall(f"{head}content-length: 1000\r\n\r\n{{".encode())
        sleeps = b'{"args": ["3"]}'
        for each in slow[50:]:
            asked = head.replace("/count", "/slow") + f"content-length: {len(sleeps)}\r\n\r\n"
            each.sendall(asked.encode() + sleeps)
        began = time.monotonic()
        serving.feed("dog")
        told = httpx.post(f"{server.url}/drpc/count", json={"args": ["dog"]}, timeout=30)
        assert told.status_code == 200 and told.json()["rows"] == [["dog", 3]]
        assert time.monotonic() - began < 20, "on a busy machine; alone it takes some milliseconds"
        statuses = [each.recv(12).split()[1] for each in slow]
        assert statuses == [b"408"] * 50 + [b"504"] * 50
        for each in slow:
            each.close()


def test_a_function_whose_calls_never_end_holds_up_no_other_one(serving: Serving) -> None:
    """Each call begins a thread of its own, because it comes when the ones before have run for a while."""
    with serving.running.serve(limits=Limits(timeoutSecs=1.0)) as server:
        place = urlsplit(server.url)
        body = b'{"args": ["8"]}'
        head = f"POST /drpc/slow HTTP/1.1\r\nhost: {place.netloc}\r\ncontent-type: application/json\r\n"
        calls = []
        for _ in range(50):
            calls.append(socket.create_connection((place.hostname, place.port), timeout=30))
            calls[-1].sendall(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
            time.sleep(0.11)
        for path in ("/drpc/count", "/state/counts"):
            asked = {"args": ["dog"]} if path == "/drpc/count" else {"keys": ["dog"]}
            assert httpx.post(f"{server.url}{path}", json=asked, timeout=30).status_code == 200
        assert httpx.get(f"{server.url}/readyz", timeout=30).status_code == 200
        told = httpx.post(f"{server.url}/drpc/slow", json={"args": ["0"]}, timeout=30)
        assert told.status_code == 504 and "16 earlier calls have not finished yet" in told.text
        for call in calls:
            assert call.recv(12).split()[1] == b"504"
            call.close()
