"""What a connection may do in each phase: bytes and seconds of heads, bodies, trailers and answers."""

import logging
import socket
import threading
import time

import httpx
import pytest

from tests.server.conftest import Serving
from tests.server.raw import connect, read
from tests.support.waiting import wait_until
from trident.server import http_protocol, http_server
from trident.server.access_rules import Rights
from trident.server.limits import Limits
from trident.server.unsent_answers import Unsent

HEAD = b"GET /state HTTP/1.1\r\nhost: localhost\r\n"
POST = b"POST /state/counts HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"", 0),
        (b"GET /sta", 408),
        (HEAD + b"x-slow: ", 408),
        (POST + b"content-length: 100\r\n\r\n{", 408),
        (POST + b'transfer-encoding: chunked\r\n\r\n5\r\n{"key', 408),
        (HEAD + b"content-length: 100\r\n\r\n{", 200),  # a body that nobody reads
        (b"POST /nowhere HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n{", 404),
        (HEAD + b"\r\n" + HEAD, 200),  # the second head does not end
    ],
)
def test_a_request_that_does_not_end_ends_its_connection(
    serving: Serving, sent: bytes, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_protocol, "_LOOK_SECONDS", 0.1)
    monkeypatch.setattr(http_protocol, "_CLOSING_SECONDS", 0.5)
    limits = Limits(headSecs=1, bodySecs=1)
    with serving.running.serve(limits=limits) as server, connect(server.url, timeout=60) as connection:
        if sent:
            connection.sendall(sent)
        told = read(connection)  # until the server closes
        assert told.status == status


def trickle(connection: socket.socket, piece: bytes) -> None:
    """Send bytes until the server closes the connection."""
    try:
        for _ in range(100_000):
            connection.sendall(piece)
    except OSError:
        return
    raise AssertionError("the server takes whatever comes")


@pytest.mark.parametrize(
    ("before", "piece"),
    [
        (HEAD, b"x: " + b"a" * 60 + b"\r\n"),
        (HEAD + b"x: ", b"a" * 1000),
        (POST + b"transfer-encoding: chunked\r\n\r\n0\r\n", b"x: " + b"a" * 60 + b"\r\n"),
        (POST + b"transfer-encoding: chunked\r\n\r\n0\r\nx: ", b"a" * 1000),
        (POST + b"transfer-encoding: chunked\r\n\r\n", b"0" * 1000),
        (POST + b"transfer-encoding: chunked\r\n\r\n1;", b"a" * 1000),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n", b"1000\r\n" + b"a" * 4096 + b"\r\n"),
    ],
)
@pytest.mark.parametrize("token", [None, TOKEN])
def test_a_request_without_an_end_is_cut_in_every_phase(
    serving: Serving, before: bytes, piece: bytes, token: str | None
) -> None:
    limits = Limits(headSecs=2, bodySecs=1)
    with serving.running.serve(token=token, limits=limits) as server, connect(server.url) as connection:
        connection.sendall(before)
        trickle(connection, piece)


def test_trailers_are_no_headers(serving: Serving) -> None:
    with serving.running.serve(token=TOKEN) as server, connect(server.url) as connection:
        body = b'{"keys": ["dog"]}'
        chunk = b"%x\r\n%s\r\n0\r\n" % (len(body), body)
        trailer = b"authorization: Bearer 0123456789abcdef\r\n\r\n"
        connection.sendall(POST + b"connection: close\r\ntransfer-encoding: chunked\r\n\r\n" + chunk + trailer)
        assert read(connection).status == 401


def test_an_answer_that_nobody_reads_is_cut_and_counts_until_then(serving: Serving) -> None:
    serving.feed(*(f"{n:06d}{'x' * 4000}" for n in range(2_000)))
    with serving.running.serve(limits=Limits(answerSecs=1, inFlight=1)) as server:
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
            connection.sendall(b"GET /state/counts?limit=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert connection.recv(12) == b"HTTP/1.1 200"
            told = httpx.get(f"{server.url}/state")
            assert told.status_code == 503 and told.json()["error"]["type"] == "Overloaded"
            wait_until(lambda: httpx.get(f"{server.url}/state").status_code == 200)
        assert len(httpx.get(f"{server.url}/state/counts?limit=10000").json()["rows"]) == 2_002


def test_answers_that_nobody_reads_have_a_limit_together(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("trident.server.unsent_answers._STUCK_SECONDS", 0.01)
    monkeypatch.setattr(Unsent.__init__, "__defaults__", (1, time.monotonic))
    serving.feed(*(f"{n:06d}{'x' * 4000}" for n in range(1_000)))
    with serving.running.serve(limits=Limits(answerSecs=600)) as server:
        whole = len(httpx.get(f"{server.url}/state/counts?limit=10000").content)
        readers = [socket.socket() for _ in range(6)]
        for reader in readers:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
            reader.sendall(b"GET /state/counts?limit=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert reader.recv(12) == b"HTTP/1.1 200"
        content = []
        for reader in readers:
            content.append(len(read(reader, first=b"HTTP/1.1 200", idle=1.0).body))
            reader.close()
    assert sum(size < whole for size in content) >= 4, content
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_feed_whose_reader_does_not_read_is_cut(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    serving.feed(*(f"{n:06d}{'x' * 4000}" for n in range(3_000)))
    with serving.running.serve(limits=Limits(answerSecs=1)) as server, socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", int(server.url.rpartition(":")[2])))
        connection.sendall(b"GET /state/counts/changes?snapshot=true HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
        readers = 'trident_feed_readers{state="counts"} '
        wait_until(lambda: f"{readers}1.0" in httpx.get(f"{server.url}/metrics").text)
        wait_until(lambda: f"{readers}0.0" in httpx.get(f"{server.url}/metrics").text)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_connections_that_wait_make_room_for_new_ones(serving: Serving) -> None:
    """Heads that do not end, bodies that do not end, and silence: with all places taken, others are answered."""
    with serving.running.serve(limits=Limits(connections=20, headSecs=600, bodySecs=600)) as server:
        slow = []
        for at in range(60):
            slow.append(connect(server.url))
            slow[-1].sendall([b"GET /st", POST + b"content-length: 100\r\n\r\n{", b""][at % 3])
            if at % 10 == 9:
                assert httpx.get(f"{server.url}/state", timeout=30).status_code == 200
        open_still = 0
        for connection in slow:
            connection.settimeout(0.01)
            try:
                open_still += connection.recv(1) != b""
            except TimeoutError:
                open_still += 1
            except ConnectionError:
                pass
            connection.close()
        assert open_still <= 20


def test_many_requests_at_once_on_one_connection_are_refused(serving: Serving) -> None:
    with connect(serving.url) as connection:
        connection.sendall((HEAD + b"\r\n") * 5_000)
        content = b""
        try:
            while piece := connection.recv(65536):
                content += piece
        except ConnectionError:
            pass
    assert content.count(b"HTTP/1.1 200") < 100
    assert serving.get("/state").status_code == 200


def test_head_of_a_stream_ends(serving: Serving) -> None:
    for path in ("/events", "/state/counts/changes"):
        with connect(serving.url) as connection:
            connection.sendall(b"HEAD %s HTTP/1.1\r\nhost: localhost\r\n\r\n" % path.encode())
            assert connection.recv(4096).startswith(b"HTTP/1.1 200")
            connection.sendall(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            assert b'"alive"' in read(connection).body
    assert 'trident_feed_readers{state="counts"} 0.0' in serving.get("/metrics").text


def test_places_of_readers_are_shared_between_tokens(serving: Serving) -> None:
    shop = "the-token-of-the-shop"
    asked = b"GET /state/counts/changes HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer %s\r\n\r\n"
    with serving.running.serve(token=TOKEN, tokens={shop: Rights(states=["counts"])}) as server:
        readers = [connect(server.url) for _ in range(150)]
        for reader in readers:
            reader.sendall(asked % shop.encode())
        told = [reader.recv(12)[9:] for reader in readers]
        assert told.count(b"200") == 32 and told.count(b"503") == 118
        with connect(server.url) as operator:
            operator.sendall(asked % TOKEN.encode())
            assert operator.recv(12)[9:] == b"200"
        for reader in readers:
            reader.close()

        def free() -> bool:
            with connect(server.url) as again:
                again.sendall(asked % shop.encode())
                return again.recv(12)[9:] == b"200"

        wait_until(free)


def test_a_client_that_leaves_is_no_failure_of_the_server(serving: Serving, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "trident.audit")
    for sent in (
        POST + b"content-length: 100\r\n\r\n{",
        b'GET /state/counts HTTP/1.1\r\nhost: localhost\r\ntrident-min-txid: {"words": 99}\r\n\r\n',
    ):
        with connect(serving.url) as connection:
            connection.sendall(sent)
            connection.settimeout(0.3)
            with pytest.raises(TimeoutError):
                connection.recv(1)
    wait_until(lambda: sum(": 499 in" in record.getMessage() for record in caplog.records) == 2)
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


def test_a_server_that_stops_tells_those_who_wait(
    serving: Serving, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http_server, "_STOP_SECONDS", 1.0)
    server = serving.running.serve()
    body = b'{"keys": [], "minTxid": {"words": 99}}'
    with connect(server.url) as connection:
        connection.sendall(POST + b"content-length: %d\r\n\r\n%s" % (len(body), body))
        stopping = threading.Thread(target=server.stop)
        wait_until(lambda: "trident-http" in {thread.name for thread in threading.enumerate()})
        stopping.start()
        told = read(connection)
        stopping.join()
    assert told.status == 503 and b'"Stopping"' in told.body
    assert not [record for record in caplog.records if record.exc_info or record.levelno >= logging.ERROR]
