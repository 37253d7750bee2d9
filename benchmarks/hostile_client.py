"""A client that means harm: python -m benchmarks.hostile_client URL CONNECTIONS TOKEN, until its standard input ends.

It opens connections that ask nothing, then sends bad requests in turn, each within a hundredth of a second. Prints
``ready`` once it sends, and at the end one line of JSON: of each kind of request the statuses of the answers and how
often each came.
"""

import json
import socket
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

PACE = 0.01
BODY_BYTES = 2 << 20


def requests(host: str, right: str) -> dict[str, bytes]:
    """Return the bad requests by kind, as bytes; `right` is the token that all but one of them bring."""
    deep = b'{"args": [' + b"[" * 900 + b"]" * 900 + b"]}"

    def post(path: str, body: bytes, to: str = host, token: str = right, length: int | None = None) -> bytes:
        authorization = f"authorization: Bearer {token}\r\n"
        head = f"POST {path} HTTP/1.1\r\nhost: {to}\r\n{authorization}content-type: application/json\r\n"
        return f"{head}content-length: {len(body) if length is None else length}\r\n\r\n".encode() + body

    return {
        "oversized": post("/drpc/total", b"x" * BODY_BYTES),
        "deep": post("/drpc/total", deep),
        "slow body": post("/drpc/total", b"{", length=1000),
        "wrong token": post("/drpc/total", b"{}", token="guessed"),
        "wrong host": post("/drpc/total", b"{}", to="elsewhere.example"),
        "unknown function": post("/drpc/nothing", b"{}"),
        "sleeping function": post("/drpc/sleep", b'{"args": ["60"]}'),
    }


class Asking:
    """Sends requests and counts the answers; slow ones are read in threads of their own."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._lock = threading.Lock()
        self.statuses: dict[str, Counter[str]] = {}

    def ask(self, kind: str, request: bytes) -> None:
        status = "closed"
        with suppress(OSError), socket.create_connection(self._address, timeout=60) as connection:
            with suppress(OSError):  # a server may answer and close before it has read all of a body
                connection.sendall(request)
            status = connection.recv(12).decode().partition(" ")[2] or "closed"
        with self._lock:
            self.statuses.setdefault(kind, Counter())[status] += 1


def main(url: str, connections: str, token: str) -> None:
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    address = (parts.hostname, parts.port)
    idle = [socket.create_connection(address, timeout=60) for _ in range(int(connections))]
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    print("ready", flush=True)
    asking, waiting = Asking(address), list[threading.Thread]()
    while not ended.is_set():
        for kind, request in requests(parts.netloc, token).items():
            if kind in ("slow body", "sleeping function"):
                waiting.append(threading.Thread(target=asking.ask, args=(kind, request)))
                waiting[-1].start()
            else:
                asking.ask(kind, request)
            time.sleep(PACE)
    for thread in waiting:
        thread.join()
    for connection in idle:
        connection.close()
    print(json.dumps(asking.statuses))


if __name__ == "__main__":
    main(*sys.argv[1:])
