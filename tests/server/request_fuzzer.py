"""Requests at random, well-formed and not, at a server in a child.

To run it: ``python -m tests.server.request_fuzzer SEED COUNT``.

It counts the answers by status. A request is wrong if it ends the child, if it is answered with 500, if the child logs
an error, or if the child's memory goes on growing. COUNT requests are sent; each round of them is drawn from the seed
and its number alone, so a third argument begins with that round.
"""

import json
import random
import re
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

from tests.base.value_fuzzer import a_json, a_text
from tests.server.fuzzed_server import ARGUMENTS, FEW, KEYS, NESTED, TOKEN, split
from tests.server.raw import connect
from trident.base.spark_types import arrow_type, parse_type

ROUND = 50
"""The requests of a round: most of them on one connection, `_AT_ONCE` before the first answer is read."""
_AT_ONCE = 8

_LOOK = 1000
"""The rounds after which the memory of the server is looked at."""
_MOST_GROWTH = 150 << 20

_PATHS = [
    "/",
    "/page/main.js",
    "/page/../app.py",
    "/metrics",
    "/drpc",
    "/state",
    "/tags",
    "/tags/month-end",
    "/topology",
    "/status",
    "/openapi.json",
    "/healthz",
    "/readyz",
    "/dead-letters",
    "/dead-letters/replay",
    "/nowhere",
    "//state",
    "/state//",
    "/*",
]
_NAMES = ["counts", *KEYS, "cuonts", "..", ".", "%2e%2e", "%00", "%", "%zz", "a%2Fb", "%ff", "x" * 300, ""]
_METHODS = ["GET"] * 6 + ["POST"] * 4 + ["HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"]
_HOSTS = ["127.0.0.1"] * 100 + ["localhost:1", "evil.example", "[", "[::1]", "", "127.0.0.1:x", "a b", "%00"]
_AUTHORIZATION = [None, *[f"Bearer {TOKEN}"] * 5, f"Bearer {FEW}", "Bearer ", "Basic eDp5", "Bearer \xff", "bearer x y"]
_LEAST = [
    '{"words": 1}',
    '{"words": -5}',
    "{}",
    '{"other": 99}',
    "[",
    '{"words": 1e400}',
    "{" * 4000,
    '{"words": "1"}',
    "\xff",
]
_OTHERS = [
    "x-forwarded-for: 1\x0b2",
    "range: bytes=0-1,0-1",
    "last-event-id: 9-9",
    "expect: 100-continue",
    "x: " + "a" * 3000,
    "accept: application/vnd.apache.arrow.stream",
    "if-none-match: *",
    "content-encoding: gzip",
    "upgrade: websocket",
]
_GARBAGE = [
    b"\x00",
    b"\r\n",
    b"\n",
    b" ",
    b":",
    b"HTTP/1.1",
    b"\xff",
    b"chunked",
    b"content-length: 5\r\n",
    b"a" * 70_000,
    b"transfer-encoding: chunked\r\n",
    b"0\r\n",
    b"\x16\x03\x01\x02\x00",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
]


_LONG = arrow_type(parse_type("long"))


@dataclass
class Told:
    """What came of the requests so far."""

    sent: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def a_request(draw: random.Random) -> bytes:
    """Draw a request that HTTP allows."""
    method, path, body = _a_question(draw)
    lines = [f"{method} {path} HTTP/1.1", f"host: {draw.choice(_HOSTS)}"]
    if (authorization := draw.choice(_AUTHORIZATION)) is not None:
        lines.append(f"authorization: {authorization}")
    if draw.random() < 0.1:
        lines.append(f"trident-min-txid: {draw.choice(_LEAST)}")
    if draw.random() < 0.2:
        lines.append(draw.choice(_OTHERS))
    if body and draw.random() < 0.95:
        lines.append("content-type: application/json")
    if body and draw.random() < 0.2:
        lines.append("transfer-encoding: chunked")
        cut = draw.randint(1, len(body))
        pieces = [piece for piece in (body[:cut], body[cut:]) if piece]
        body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    elif body or method in ("POST", "PUT", "PATCH"):
        lines.append(f"content-length: {len(body)}")
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1") + body


def _a_question(draw: random.Random) -> tuple[str, str, bytes]:
    """Draw a method, a path and a body."""
    kind = draw.random()
    if kind < 0.35:
        return draw.choice(["POST"] * 8 + _METHODS), *(_a_call(draw) if kind < 0.2 else _a_read(draw))
    if kind < 0.7:
        key = draw.choice(["", "", "/", "/" + _quoted(a_text(draw))])
        return draw.choice(["GET"] * 8 + _METHODS), f"/state/{draw.choice(_NAMES)}{key}{_a_query(draw)}", b""
    if kind < 0.75:  # an answer without an end ends with HEAD
        path = draw.choice(["/events", "/state/counts/changes", "/state/of_3/changes"])
        return "HEAD", f"{path}{_a_query(draw)}", b""
    if kind < 0.8:
        return "POST", "/dead-letters/replay", json.dumps({"stream": a_text(draw), "ids": None}).encode()
    return draw.choice(_METHODS), draw.choice(_PATHS), b""


def _a_call(draw: random.Random) -> tuple[str, bytes]:
    name = draw.choice([*ARGUMENTS, *NESTED, "count"])
    kind = arrow_type(parse_type((ARGUMENTS | NESTED).get(name, "string")))
    value = a_json(draw, kind)
    args: Any = draw.choice([[value], [value], {"v": value}, {"word": value}, [value, value], [], value])
    call = {"args": args} | draw.choice(
        [{}] * 8 + [{"timeout": a_json(draw, kind)}, {"minTxid": {"words": 1}}, {"x": 1}]
    )
    return f"/drpc/{draw.choice([name] * 9 + ['nothing'])}", _json(draw, call)


def _a_read(draw: random.Random) -> tuple[str, bytes]:
    name = draw.choice([*KEYS])
    kinds = [arrow_type(parse_type(kind.split()[-1])) for kind in split(KEYS[name])]
    keys = []
    for _ in range(draw.randint(0, 3)):
        parts = [a_json(draw, kind) for kind in kinds]
        keys.append(parts[0] if len(parts) == 1 and draw.random() < 0.9 else parts)
    more = draw.choice([{}] * 8 + [{"minTxid": {"words": a_json(draw, _LONG)}}, {"x": 1}])
    wanted = {"keys": keys} | more
    return f"/state/{name}", _json(draw, wanted)


def _json(draw: random.Random, value: Any) -> bytes:
    body = json.dumps(value, ensure_ascii=draw.random() < 0.5).encode(errors="surrogatepass")
    if draw.random() < 0.05:
        at = draw.randrange(len(body))
        body = body[:at] + draw.choice([b"", b"\xff", b"[" * 3000, b"9" * 5000, b"\x00", b'"']) + body[at + 1 :]
    return body


def _a_query(draw: random.Random) -> str:
    if draw.random() < 0.5:
        return ""
    names = draw.choices(["limit", "after", "top", "by", "snapshot", "rows", "x", "%00"], k=draw.randint(1, 3))
    known = ["1", "5", "true", "json", "arrow", "c2RvZw==", "1.c2RvZw=="]
    return "?" + "&".join(f"{name}={draw.choice([*known, _quoted(a_text(draw))])}" for name in names)


def _quoted(text: str) -> str:
    return quote(text.encode(errors="replace"), safe="")[:6000]


def damaged(draw: random.Random, request: bytes) -> bytes:
    """Return a request with some of its bytes removed, doubled or replaced."""
    content = bytearray(request)
    for _ in range(draw.randint(1, 4)):
        at, length = draw.randrange(len(content) + 1), draw.choice([0, 1, 2, 10, 100])
        new = draw.choice([*_GARBAGE, b"", bytes(content[at : at + length]) * 2, draw.randbytes(5)])
        content[at : at + length] = new
    return bytes(content)


class Client:
    """Sends the rounds to a server, several requests at once, and notes what comes of them."""

    def __init__(self, url: str, told: Told) -> None:
        self._url, self._told = url, told

    def round(self, draw: random.Random) -> None:
        requests = [a_request(draw) for _ in range(ROUND - 5)]
        while requests:
            requests = requests[self._send(requests) :]
        for _ in range(5):
            request = damaged(draw, a_request(draw))
            with connect(self._url) as connection:
                connection.settimeout(0.05)
                self._told.sent += 1
                try:
                    connection.sendall(request)
                    connection.shutdown(socket.SHUT_WR)
                    self._note(connection.recv(65536), request)
                except OSError:
                    self._told.statuses[0] += 1

    def _send(self, requests: list[bytes]) -> int:
        """Send requests on one connection, until the server ends it. Return how many were answered."""
        with connect(self._url) as connection, connection.makefile("rb") as answers:
            for at in range(0, len(requests), _AT_ONCE):
                batch = requests[at : at + _AT_ONCE]
                self._told.sent += len(batch)
                try:
                    connection.sendall(b"".join(batch))
                    if not all([self._read(answers, request) for request in batch]):
                        return at + len(batch)
                except (OSError, ValueError, KeyError):  # the server has ended the connection within the batch
                    self._told.statuses[0] += 1
                    return at + len(batch)
        return len(requests)

    def _read(self, answers: Any, request: bytes) -> bool:
        """Read an answer. Return whether the connection goes on."""
        first = answers.readline()
        while first.startswith(b"HTTP/1.1 100"):
            answers.readline()
            first = answers.readline()
        self._note(first, request)
        headers = {}
        while (line := answers.readline().strip()) != b"":
            name, _, value = line.partition(b": ")
            headers[name.lower()] = value
        if not request.startswith(b"HEAD") and not first.startswith(b"HTTP/1.1 304"):
            answers.read(int(headers[b"content-length"]))
        return headers.get(b"connection") != b"close" and first != b""

    def _note(self, answer: bytes, request: bytes) -> None:
        status = int(answer[9:12]) if answer.startswith(b"HTTP/1.1 ") else 0
        self._told.statuses[status] += 1
        if status == 500:
            self._told.wrong.append(f"500 for {request[:2000]!r}")


def fuzz(seed: int, count: int, first: int = 0, tell: Callable[[str], None] = lambda line: None) -> Told:
    """Send `count` requests, and return what came of them."""
    told = Told()
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "errors", "w+b") as errors:
        command = [sys.executable, "-X", "faulthandler", "-m", "tests.server.fuzzed_server", f"{folder}/checkpoint"]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors) as server:
            _rounds(seed, count, first, server, told, tell)
            if server.poll() is None:
                assert server.stdin is not None
                server.stdin.close()
                server.wait(60)
        errors.seek(0)
        text = errors.read().decode(errors="replace")
        if re.search(r"Traceback|ERROR|Fatal Python error", text):
            told.wrong.append(f"the server wrote: {text[-4000:]}")
    return told


def _rounds(
    seed: int, count: int, first: int, server: "subprocess.Popen[bytes]", told: Told, tell: Callable[[str], None]
) -> None:
    assert server.stdout is not None
    clients = [Client(url, told) for url in json.loads(server.stdout.readline())]
    number, warm = first, 0
    while told.sent < count and not told.wrong and server.poll() is None:
        try:
            clients[number % 2].round(random.Random(f"{seed}/{number}"))
        except ConnectionRefusedError:
            server.wait(60)  # it has ended, or hangs: then this raises
        number += 1
        if number % _LOOK == 0 and server.poll() is None:
            bytes_now = memory(server.pid)
            warm = warm or bytes_now
            if bytes_now > warm + _MOST_GROWTH:
                told.wrong.append(f"the server's memory grew from {warm >> 20} to {bytes_now >> 20} MB")
            tell(f"{told.sent} requests, {bytes_now >> 20} MB, {dict(told.statuses)}")
    if server.poll() is not None:
        told.wrong.append(f"the server ended with {server.returncode} in round {number - 1}")


def memory(pid: int) -> int:
    """Return the bytes of a process in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


if __name__ == "__main__":
    ended = fuzz(*map(int, sys.argv[1:]), tell=lambda line: print(line, flush=True))
    print(f"{ended.sent} requests, seed {sys.argv[1]}, {dict(ended.statuses)}; wrong: {ended.wrong or 'nothing'}")
    sys.exit(bool(ended.wrong))
