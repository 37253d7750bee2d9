"""A real RabbitMQ for tests to start, kill and restart, on loopback and free ports."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pytest

from tests.support.processes import descendants
from tests.support.server import free_port

_PROGRAMS = (Path("/usr/lib/rabbitmq/bin"), Path("/usr/local/lib/rabbitmq/sbin"))
_START_SECONDS = 90


def _program() -> str | None:
    """Return the script that runs a server in the foreground. Debian's one on the path wants the user rabbitmq."""
    beside = next(
        (str(folder / "rabbitmq-server") for folder in _PROGRAMS if (folder / "rabbitmq-server").exists()), None
    )
    return os.environ.get("RABBITMQ_SERVER") or beside or shutil.which("rabbitmq-server")


def out_of_reach() -> str:
    """Return why there is no server; "" if there is one."""
    if _program() is None:
        return "there is no RabbitMQ: install it (make tools), or name its program in RABBITMQ_SERVER"
    return ""


class RabbitServer:
    """A server with a folder and ports of its own, and no plugins."""

    def __init__(self) -> None:
        if reason := out_of_reach():
            pytest.skip(reason)
        self.port, self._folder = free_port(), Path(tempfile.mkdtemp(prefix="rabbit-"))
        peers, names = free_port(), free_port()
        self._folder.chmod(0o755)
        (self._folder / "plugins").write_text("[].")
        self._environment = {
            **os.environ,
            "HOME": str(self._folder),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(peers),
            "ERL_EPMD_PORT": str(names),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_MNESIA_BASE": str(self._folder / "data"),
            "RABBITMQ_LOG_BASE": str(self._folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self._folder / "none"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
        }
        self._process: subprocess.Popen[Any] | None = None

    def start(self) -> None:
        """Start the server, and return once it takes connections."""
        program = _program()
        assert program is not None
        with (self._folder / "out").open("ab") as out:
            self._process = subprocess.Popen(
                [program], env=self._environment, stdout=out, stderr=out, start_new_session=True
            )
        deadline = time.monotonic() + _START_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"RabbitMQ does not start:\n{(self._folder / 'out').read_text()[-2000:]}")
            time.sleep(0.1)

    def _answers(self) -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as connection:
            connection.settimeout(5)
            connection.sendall(b"AMQP\x00\x00\x09\x01")
            return bool(connection.recv(1))
        return False

    def kill(self) -> None:
        """Kill the server as a power cut would, and what it started."""
        assert self._process is not None
        for pid in [*descendants(self._process.pid), self._process.pid]:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._process.wait()

    def restart(self) -> None:
        """Kill the server, and start it again over what it has on disk."""
        self.kill()
        for _ in range(3):
            with suppress(RuntimeError):
                self.start()
                return
            # A client that connects again and again to a port on which nobody listens may get this port as its own.
            self.kill()
        self.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()
        with suppress(OSError, subprocess.SubprocessError):  # the name server, which outlives its node
            subprocess.run(["epmd", "-kill"], env=self._environment, capture_output=True, timeout=10)
        shutil.rmtree(self._folder, ignore_errors=True)
