"""A client that asks an HTTP server over several connections as fast as it answers."""

import asyncio
import time
from dataclasses import dataclass, field
from urllib.parse import urlsplit


@dataclass
class Answered:
    """What a load got: seconds of each request, and the answers that were no 200."""

    seconds: float = 0.0
    took: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Answers in a second."""
        return len(self.took) / self.seconds


def load_server(url: str, method: str, path: str, body: bytes, connections: int, seconds: float) -> Answered:
    """Send one request over and over, over each connection, for so many seconds."""
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None
    head = f"{method} {path} HTTP/1.1\r\nhost: {parts.netloc}\r\ncontent-type: application/json\r\n"
    request = f"{head}content-length: {len(body)}\r\n\r\n".encode() + body
    answered = Answered()

    async def ask(until: float) -> None:
        reader, writer = await asyncio.open_connection(parts.hostname, parts.port)
        while time.monotonic() < until:
            began = time.monotonic()
            writer.write(request)
            header = await reader.readuntil(b"\r\n\r\n")
            length = int(header.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            content = await reader.readexactly(length)
            answered.took.append(time.monotonic() - began)
            if not header.startswith(b"HTTP/1.1 200"):
                answered.errors.append(content.decode())
        writer.close()

    async def everybody() -> None:
        began = time.monotonic()
        await asyncio.gather(*(ask(began + seconds) for _ in range(connections)))
        answered.seconds = time.monotonic() - began

    asyncio.run(everybody())
    return answered
