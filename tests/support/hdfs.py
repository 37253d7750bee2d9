"""A real HDFS for tests: a NameNode and a DataNode as processes of their own, from an artifact of Maven Central.

The servers are in the jar of Hadoop's mini cluster, in the version of the client that pyspark has. They are started by
their own programs, as on any cluster, so each can be killed, stopped and started again. Where the jar is out of reach
or the package hdfs-native is missing, `HdfsServer` skips the test and says why.
"""

import itertools
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from xml.sax.saxutils import escape

import pyspark
import pytest

from tests.support.processes import stop
from tests.support.server import free_port
from tests.support.spark import SHORT_LIVED
from trident.demo.artifacts import first_fetched, java
from trident.files.hdfs import HdfsFiles, hdfs_files
from trident.files.object_options import Storage

_JARS = Path(pyspark.__file__).parent / "jars"
_SERVERS = "org.apache.hadoop.hdfs.server"
_NAMENODE, _DATANODE = f"{_SERVERS}.namenode.NameNode", f"{_SERVERS}.datanode.DataNode"
_PATIENCE = 120.0
_numbers = itertools.count()


def _server_jar() -> tuple[Path, str]:
    """Return the folder with the servers' jar, and ""; or a folder and the reason why it is not there."""
    client = next(iter(sorted(_JARS.glob("hadoop-client-api-*.jar"))), None)
    version = re.search(r"-([\d.]+)\.jar$", client.name) if client else None
    if version is None:
        return _JARS, "pyspark has no client of Hadoop, whose version the servers of HDFS must have"
    # The empty classifier stands for the jar alone: pyspark has the jars that it depends on.
    return first_fetched([f"org.apache.hadoop:hadoop-client-minicluster:{version[1]}:"])


class HdfsServer:
    """A NameNode at a port of loopback, and one DataNode that keeps the blocks. `kill` and `hold` act on the NameNode.

    Every file has one replica, as there is one DataNode.
    """

    def __init__(self, folder: Path) -> None:
        self._package = pytest.importorskip("hdfs_native", reason="tests of HDFS need the package hdfs-native")
        self._jars, reason = _server_jar()
        if reason:
            pytest.skip(reason)
        self.port = free_port()
        self._folder = folder
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    @property
    def url(self) -> str:
        return f"hdfs://127.0.0.1:{self.port}"

    @property
    def client(self) -> Any:
        """A client of the tests' own, beside the library's."""
        return self._package.Client(self.url)

    def start(self) -> Self:
        """Start both servers, and return when a file can be written."""
        self._configure()
        self._run("format", _NAMENODE, "-format", "-nonInteractive").wait(_PATIENCE)
        self._processes = {"namenode": self._run("namenode", _NAMENODE), "datanode": self._run("datanode", _DATANODE)}
        self._wait()
        return self

    def stop(self) -> None:
        for process in self._processes.values():
            process.kill()
        for process in self._processes.values():
            process.wait()

    def kill(self) -> None:
        """Kill the NameNode, as a power loss does."""
        self._processes["namenode"].kill()
        self._processes["namenode"].wait()

    def revive(self) -> None:
        """Start the NameNode again, and return when a file can be written."""
        self._processes["namenode"] = self._run("namenode", _NAMENODE)
        self._wait()

    def hold(self) -> None:
        """Let the NameNode stand still: connections stay open, and nobody answers."""
        stop(self._processes["namenode"].pid)

    def release(self) -> None:
        os.kill(self._processes["namenode"].pid, signal.SIGCONT)

    def _wait(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                client = self._package.Client(self.url, {"dfs.client.failover.max.attempts": "0"})
                file = client.create("/alive", self._package.WriteOptions(overwrite=True))
                file.write(b"1")
                file.close()
                return
            except (OSError, RuntimeError) as error:
                ended = [name for name, process in self._processes.items() if process.poll() is not None]
                if ended or time.monotonic() > deadline:
                    self.stop()
                    logs = [(self._folder / f"{name}.log").read_text()[-2000:] for name in ended or self._processes]
                    raise RuntimeError(f"HDFS did not start: {error}; {logs}") from None
                time.sleep(0.1)

    def _configure(self) -> None:
        here = "127.0.0.1:0"
        options = {
            "fs.defaultFS": self.url,
            "hadoop.tmp.dir": str(self._folder / "tmp"),
            "dfs.namenode.name.dir": (self._folder / "names").as_uri(),
            "dfs.datanode.data.dir": (self._folder / "blocks").as_uri(),
            "dfs.namenode.http-address": here,
            "dfs.datanode.address": here,
            "dfs.datanode.http.address": here,
            "dfs.datanode.ipc.address": here,
            "dfs.replication": "1",
            "dfs.namenode.safemode.extension": "0",
            "dfs.heartbeat.interval": "1",
            "ipc.client.connect.retry.interval": "100",
        }
        text = "".join(
            f"<property><name>{name}</name><value>{escape(value)}</value></property>" for name, value in options.items()
        )
        for name in ("core-site.xml", "hdfs-site.xml"):
            (self._folder / name).write_text(f"<configuration>{text}</configuration>")

    def _run(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        classes = [str(self._folder), *(str(jar) for jar in self._jars.glob("*.jar")), f"{_JARS}/*"]
        # a server that is killed leaves what it unpacked for its web pages, so that has to lie in the test's folder
        flags = [SHORT_LIVED, "-Xmx256m", "-XX:+UseSerialGC", f"-Djava.io.tmpdir={self._folder}"]
        with (self._folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [java(), *flags, "-cp", os.pathsep.join(classes), *command],
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C in the terminal is for the tests, which then stop it
            )

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


@dataclass
class Hdfs:
    """The files below one folder."""

    server: HdfsServer
    folder: str = field(default_factory=lambda: f"test{next(_numbers):04}")

    @property
    def url(self) -> str:
        return f"{self.server.url}/{self.folder}"

    def files(self) -> HdfsFiles:
        """Return the folder as a place of a run's files."""
        return hdfs_files("files", self.url, Storage())

    @property
    def options(self) -> dict[str, Any]:
        """The options of a start that keeps its files here."""
        return {"filesLocation": self.url}

    def names(self, folder: str = "") -> list[str]:
        """Return the names of the files that are there now, sorted."""
        found = []
        with suppress(FileNotFoundError):
            for about in self.server.client.list_status(f"/{self.folder}/{folder}".rstrip("/"), True):
                found += [] if about.isdir else [about.path.removeprefix(f"/{self.folder}/")]
        return sorted(found)


@pytest.fixture(scope="session")
def hdfs_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HdfsServer]:
    with HdfsServer(tmp_path_factory.mktemp("hdfs")) as server:
        yield server


@pytest.fixture
def hdfs(hdfs_server: HdfsServer) -> Hdfs:
    return Hdfs(hdfs_server)
