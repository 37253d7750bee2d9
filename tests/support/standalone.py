"""A standalone Spark cluster on loopback: a master and workers as processes, from the installed pyspark."""

import os
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import pyspark

from tests.support.server import free_port
from tests.support.spark import SHORT_LIVED

HOME = Path(pyspark.__file__).parent
_CLASSES = "org.apache.spark.deploy"
_PLACE = ("--host", "127.0.0.1", "--webui-port", "0")
_SECONDS = 180


class StandaloneCluster:
    """A master and `workers` of one core and `memory` MB each. `url` is what a session takes as its master."""

    def __init__(self, folder: Path, workers: int = 2, memory: int = 1024) -> None:
        self.folder = folder
        self._workers = workers
        self._memory = memory
        self._port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._logs: list[IO[bytes]] = []

    @property
    def url(self) -> str:
        return f"spark://127.0.0.1:{self._port}"

    def __enter__(self) -> Self:
        try:
            master = self._start("master", f"{_CLASSES}.master.Master", *_PLACE, "--port", str(self._port))
            self._processes.append(master)
            for number in range(self._workers):
                self._processes.append(self._worker(number))
            self._wait()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End the processes, workers first: each takes its executors with it."""
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for log in self._logs:
            log.close()

    def revive(self) -> int:
        """Start the workers again that have died; return how many they were."""
        dead = [n for n, process in enumerate(self._processes[1:]) if process.poll() is not None]
        for number in dead:
            self._processes[1 + number] = self._worker(number)
        return len(dead)

    def _worker(self, number: int) -> subprocess.Popen[bytes]:
        work = ["--work-dir", str(self.folder / f"work-{number}"), "-c", "1", "-m", f"{self._memory}M"]
        return self._start(f"worker-{number}", f"{_CLASSES}.worker.Worker", *_PLACE, *work, self.url)

    def _start(self, name: str, main: str, *words: str) -> subprocess.Popen[bytes]:
        log = open(self.folder / f"{name}.log", "ab")  # noqa: SIM115  # closed with the cluster
        self._logs.append(log)
        env = os.environ | {
            "SPARK_HOME": str(HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "local"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": SHORT_LIVED,
            # an application whose executors are killed again and again is not given up
            "SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1",
        }
        command = [str(HOME / "bin" / "spark-class"), main, *words]
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=env)

    def _wait(self) -> None:
        """Return when every worker is registered with the master."""
        log, deadline = self.folder / "master.log", time.monotonic() + _SECONDS
        while log.read_text(errors="replace").count("Registering worker") < self._workers:
            if time.monotonic() > deadline or any(process.poll() is not None for process in self._processes):
                raise RuntimeError(f"the cluster did not come up: {log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.1)
