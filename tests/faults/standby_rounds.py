"""Drivers that are killed or stopped with SIGSTOP, and standbys that take over, in real processes, round after round.

``python -m tests.faults.standby_rounds sqlite 50 10 7`` prints how long each takeover took.
"""

import contextlib
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isqrt
from pathlib import Path
from typing import Any

from tests.faults.standby_program import ROWS
from tests.support.processes import stop
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import openState
from trident.log import RedisLog
from trident.log.protocol import LogReading
from trident.log.sqlite_log import SqliteLog
from trident.run.start import LOG_FILE

ROOT = Path(__file__).parents[2]
NAME = "st"


@dataclass
class Driver:
    """A process of ``trident run``."""

    process: subprocess.Popen[bytes]
    said: Path

    @property
    def text(self) -> str:
        return self.said.read_text(encoding="utf-8")

    def ends(self, seconds: float = 60) -> int:
        """Return the exit code. Where it does not end, its threads say in `text` where they are."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGABRT)
            raise AssertionError(f"the driver does not end: {self.process.wait()}\n{self.text}") from None

    def send(self, number: signal.Signals) -> None:
        if number == signal.SIGSTOP:
            stop(self.process.pid)
        else:
            self.process.send_signal(number)


@dataclass
class Place:
    """Where log and state of the topology are: in a folder, or on a server."""

    folder: Path
    lease: float
    server: RedisServer | None = None
    drivers: list[Driver] = field(default_factory=list)

    def start(self, *, standby: bool) -> Driver:
        where = ["--checkpoint", str(self.folder / "checkpoint")]
        env = {
            **os.environ,
            "PYTHONFAULTHANDLER": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")]),
        }
        if self.server is not None:
            where, env["STATE_URL"] = ["--log-url", self.server.url], self.server.url
        command = [sys.executable, "-m", "trident", "run", "tests.faults.standby_program:topology", "--name", NAME]
        command += ["--engine", "embedded", "--lease-secs", str(self.lease), *where, *["--standby"] * standby]
        said = self.folder / f"driver-{len(self.drivers)}.txt"
        with said.open("wb") as file:
            driver = Driver(subprocess.Popen(command, cwd=ROOT, env=env, stderr=file), said)
        self.drivers.append(driver)
        if standby:
            wait_until(lambda: "waits as a standby" in driver.text or driver.process.poll() is not None, 30)
            assert "waits as a standby" in driver.text, driver.text
        return driver

    @contextlib.contextmanager
    def log(self) -> Iterator[LogReading]:
        log: LogReading
        if self.server is None:
            log = SqliteLog(self.folder / "checkpoint" / NAME / LOG_FILE, NAME, reading=True)
        else:
            log = RedisLog(self.server.url).look(NAME)
        with contextlib.closing(log):
            yield log

    def committed(self) -> int:
        with self.log() as log:
            return log.last_committed("numbers")

    def epoch(self) -> int:
        with self.log() as log:
            lease = log.lease()
            return lease.epoch if lease is not None else 0

    def begin(self) -> Driver:
        """Start the first driver, and return it when it commits."""
        driver = self.start(standby=False)

        def commits() -> bool:
            assert driver.process.poll() is None, driver.text
            with contextlib.suppress(Exception):  # there is no log yet
                return self.committed() > 2
            return False

        try:
            wait_until(commits, 60)
        except AssertionError:
            raise AssertionError(f"the first driver commits nothing: {driver.text}") from None
        return driver

    def seconds_to_commit(self, driver: Driver, how: signal.Signals) -> float:
        """Kill or stop the driver, and return after how many seconds a batch commits again."""
        driver.send(how)
        while how == signal.SIGSTOP and self._is_locked():  # in the middle of a write: nobody takes such a file over
            driver.send(signal.SIGCONT)
            time.sleep(0.05)
            driver.send(how)
        began, before = time.monotonic(), self.committed()
        try:
            wait_until(lambda: self.committed() > before, self.lease + 30)
        except AssertionError:
            raise AssertionError(f"nobody goes on after {how.name}: {self._said_last()}") from None
        return time.monotonic() - began

    def _said_last(self) -> str:
        """Return the ends of what the last two drivers wrote, with the threads of the one that should go on."""
        waiting = self.drivers[-1]
        waiting.send(signal.SIGABRT)
        waiting.process.wait(30)
        return "\n---\n".join(driver.text[-6000:] for driver in self.drivers[-2:])

    def _is_locked(self) -> bool:
        """Return whether a stopped process holds the lock of the log's file."""
        if self.server is not None:
            return False
        path = self.folder / "checkpoint" / NAME / LOG_FILE
        with contextlib.closing(sqlite3.connect(path, timeout=0.3, isolation_level=None)) as db:
            try:
                db.execute("BEGIN IMMEDIATE")
                db.execute("ROLLBACK")
            except sqlite3.OperationalError:
                return True
        return False

    def check_exact(self) -> None:
        """Raise AssertionError unless the state holds every number of whole batches once."""
        where: dict[str, Any] = {"checkpointLocation": self.folder / "checkpoint"}
        if self.server is not None:
            where = {"log": RedisLog(self.server.url), "url": self.server.url}
        with openState(NAME, "sum", **where) as state:
            total = state.value
        count = (1 + isqrt(1 + 8 * total)) // 2
        assert total == count * (count - 1) // 2 and count % ROWS == 0 and count > 0, total

    def end(self) -> None:
        for driver in self.drivers:
            if driver.process.poll() is None:
                driver.process.kill()
                driver.process.wait()

    def round(self, driver: Driver, waiting: Driver, how: signal.Signals) -> float:
        """Take the driver away; the one in waiting goes on. Return the seconds until it commits.

        A stopped driver is woken then: it is fenced, ends, and has changed nothing.
        """
        seconds = self.seconds_to_commit(driver, how)
        if how == signal.SIGSTOP:
            driver.send(signal.SIGCONT)
            assert driver.ends() == 1, driver.text
            assert "FencedError" in driver.text, driver.text
        else:
            driver.ends()
        assert waiting.process.poll() is None, waiting.text
        self.check_exact()
        return seconds


def main(kind: str, rounds: int, lease: float, seed: int) -> None:
    chance, took = random.Random(seed), dict[str, list[float]]()
    with contextlib.ExitStack() as end:
        folder = Path(end.enter_context(tempfile.TemporaryDirectory()))
        server = end.enter_context(RedisServer(folder / "server")) if kind == "redis" else None
        place = Place(folder, lease, server)
        end.callback(place.end)
        driver = place.begin()
        for number in range(rounds):
            how = (signal.SIGKILL, signal.SIGSTOP)[number % 2]
            waiting = place.start(standby=True)
            time.sleep(chance.uniform(0, lease))
            took.setdefault(how.name, []).append(place.round(driver, waiting, how))
            driver = waiting
            print(f"{kind} {number} {how.name}: {took[how.name][-1]:.2f} s", flush=True)
        epoch = place.epoch()
        driver.send(signal.SIGTERM)
        assert driver.ends() == 0, driver.text
        place.check_exact()
        assert epoch == rounds + 1, f"{epoch} leases for {rounds} takeovers"
    for name, times in took.items():
        low, high, middle = min(times), max(times), statistics.median(times)
        print(f"{kind} {name}: {len(times)} rounds, lease {lease:g} s, {low:.2f} / {middle:.2f} / {high:.2f} s, exact")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]))
