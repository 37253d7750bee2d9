"""Random deaths between the puts of executors and their reports, in Spark clusters with processes of their own.

A round is a batch that executors put into three states in Redis or in Delta tables, one of which they ask before.
`tests.cluster.puts` says what dies. In the end every count is right, whoever was killed and wherever: a driver that was
killed is followed by another one, a server and a worker process of Spark come back, and a driver that stood still is
fenced.

Usage: python -m tests.cluster.put_rounds N [--seed S] [--kind local-cluster|standalone] [--delta]. Prints a summary in
its last line; ends with 1 where anything differs.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.cluster.puts import FENCED, KINDS, STOPPED, Found, expected, note_pid
from tests.support.processes import state_of
from tests.support.server import Aof, RedisServer
from tests.support.standalone import StandaloneCluster
from trident.base.java import ensure_java

ROOT = Path(__file__).parents[2]
CLUSTERS = ("local-cluster", "standalone")
AT_ONCE = 20
"""Rounds of one checkpoint."""
PATIENCE = 300.0
"""Seconds without a word of any driver or its Spark after which the rounds count as hanging."""


@dataclass
class Outcome:
    """What some rounds came to."""

    rounds: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    drivers: int = 0
    wrong: list[str] = field(default_factory=list)

    def add(self, other: "Outcome") -> None:
        self.rounds += other.rounds
        self.struck += other.struck
        self.drivers += other.drivers
        self.wrong += other.wrong

    def __str__(self) -> str:
        struck = ", ".join(f"{kind} {n}" for kind, n in self.struck.most_common())
        verdict = f"NOT EXACT: {'; '.join(self.wrong)}" if self.wrong else "exact"
        return f"{verdict}; {self.rounds} rounds, {self.drivers} drivers; {struck or 'nothing'}"


class Driver:
    """A driver's process, and its last word."""

    def __init__(self, command: list[str], folder: Path, number: int) -> None:
        self.said, self.log = folder / f"driver-{number}.out", folder / f"driver-{number}.log"
        with self.said.open("wb") as out, self.log.open("wb") as log:
            self.process = subprocess.Popen(command, cwd=ROOT, stdout=out, stderr=log, start_new_session=True)
        self.stands_still = False

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    def lines(self) -> list[dict[str, Any]]:
        found = []
        for line in self.said.read_text().splitlines():
            with suppress(ValueError):  # cut off by a kill
                found.append(json.loads(line))
        return found

    def end(self) -> None:
        """Kill it with its Spark."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(30)


class Rounds:
    """Some rounds of one checkpoint: the server, the cluster, and one driver after the other. Without `aof` there is no
    server, and the states are Delta tables."""

    def __init__(self, cluster: str, count: int, seed: int, folder: Path, aof: Aof | None) -> None:
        self._count, self._seed, self._folder = count, seed, folder
        left_out = "stands still" if cluster == "standalone" else "daemon"  # two drivers want more cores than there are
        left = {left_out} if aof else {left_out, "server"}
        self._kinds = [kind for kind in KINDS if kind not in left]
        self._server = RedisServer(folder / "server", aof) if aof else None
        self._cluster = StandaloneCluster(folder) if cluster == "standalone" else None
        self._drivers: list[Driver] = []
        self._stops: Counter[str] = Counter()
        self._dice = random.Random(f"{seed}/rounds")

    def run(self) -> Outcome:
        """Run them all."""
        outcome = Outcome(self._count)
        with ExitStack() as stack:
            stack.callback(self._end)
            if self._server is not None:
                stack.enter_context(self._server)
                note_pid(self._folder, "server", self._server.pid)
            if self._cluster is not None:
                stack.enter_context(self._cluster)
            try:
                found = self._until_over()
                outcome.wrong += differences(found, expected(self._seed, self._count)) if found else []
            except AssertionError as error:
                outcome.wrong.append(str(error))
        outcome.drivers = len(self._drivers)
        outcome.struck += self._stops
        outcome.struck.update(path.name.split("-", 4)[4].replace("-", " ") for path in self._folder.glob("struck-*"))
        return outcome

    def _end(self) -> None:
        for driver in self._drivers:
            driver.end()

    def _start(self) -> Driver:
        master = "local-cluster[2,1,1024]" if self._cluster is None else self._cluster.url
        url = str(self._folder / "states") if self._server is None else self._server.url
        words = [str(self._folder), url, master, ",".join(self._kinds), str(self._count), str(self._seed)]
        driver = Driver([sys.executable, "-m", "tests.cluster.puts", *words], self._folder, len(self._drivers))
        self._drivers.append(driver)
        return driver

    def _until_over(self) -> Found:
        """Start drivers until one has come to the end; return what it found."""
        driver, still = self._start(), list[tuple[float, Driver]]()
        heard, words = time.monotonic(), 0
        while True:
            time.sleep(0.05)
            self._mend()
            said = sum(file.stat().st_size for each in self._drivers for file in (each.said, each.log))
            if said != words:
                heard, words = time.monotonic(), said
            self._check_alive(heard)
            for wakes, sleeper in [*still]:
                if time.monotonic() > wakes:
                    sleeper.process.send_signal(signal.SIGCONT)
                    still.remove((wakes, sleeper))
            if driver.over and (taker := self._taker_from(driver)) is not None:
                driver = taker
            elif driver.over:
                done = self._ended(driver)
                if done is not None:
                    self._check_fenced(still)
                    return done
                driver = self._start()
            elif state_of(driver.process.pid) == "T":
                driver.stands_still = True
                still.append((time.monotonic() + self._dice.choice((15.0, 40.0)), driver))
                driver = self._start()

    def _taker_from(self, driver: Driver) -> Driver | None:
        """Return the driver that has taken the log from a later one: it stood still before it took the log itself."""
        if driver.process.returncode != FENCED:
            return None
        return next((each for each in self._drivers if each.stands_still and not each.over), None)

    def _mend(self) -> None:
        """Start again what died, the server after a while."""
        if self._server is not None and not self._server.running:
            time.sleep(self._dice.choice((0.0, 0.3, 2.0)))
            self._server.start()
            note_pid(self._folder, "server", self._server.pid)
        if self._cluster is not None:
            self._cluster.revive()

    def _check_alive(self, heard: float) -> None:
        if time.monotonic() - heard > PATIENCE:
            driver = self._drivers[-1]
            driver.process.send_signal(signal.SIGUSR1)
            time.sleep(1)
            raise AssertionError(f"no driver said a word for {PATIENCE:g} s: {_tail(driver.log, 8000)}")

    def _ended(self, driver: Driver) -> Found | None:
        """Return what a driver found that came to the end; None if another one has to go on, and nothing if none can.

        Raises AssertionError if it ended otherwise than by a kill or by the error that is right.
        """
        code = driver.process.returncode
        if code == STOPPED:
            stopped = driver.lines()[-1]["stopped"]
            self._stops[stopped] += 1
            if stopped == "StateLostError":  # a server that does not write each time may lose a state that is new
                assert self._server is not None and self._server.aof != "always", (
                    f"a state is lost: {_tail(driver.log)}"
                )
                return {}
            return None
        if code == 0:
            last = driver.lines()[-1]
            assert last["writers"] in (["executors"], []), f"writers {last['writers']}"
            found: Found = last["found"]
            return found
        assert code == -signal.SIGKILL, f"a driver ended with {code}: {_tail(driver.log)}"
        return None

    def _check_fenced(self, still: list[tuple[float, Driver]]) -> None:
        """A driver that stood still is fenced when it goes on. One that was killed meanwhile needs nothing.

        On a busy machine it may go on, and do all that is left, before the next one has taken the log. Then it is right
        if all is exact.
        """
        for _, sleeper in still:
            sleeper.process.send_signal(signal.SIGCONT)
        for driver in self._drivers:
            if driver.stands_still:
                try:
                    code = driver.process.wait(120)
                except subprocess.TimeoutExpired:
                    raise AssertionError(f"a driver that was taken over does not end: {_tail(driver.log)}") from None
                if code == 0:
                    wrong = differences(driver.lines()[-1]["found"], expected(self._seed, self._count))
                    assert not wrong, f"one that stood still and came to the end: {'; '.join(wrong)}"
                else:
                    assert code in (FENCED, -signal.SIGKILL), (
                        f"one that was taken over ended with {code}: {_tail(driver.log)}"
                    )


def differences(found: Found, right: Found) -> list[str]:
    """Return what is wrong in the states."""
    wrong = []
    for state, values in right.items():
        keys = [key for key in {**values, **found[state]} if values.get(key) != found[state].get(key)]
        if keys:
            shown = ", ".join(f"{key}: {found[state].get(key)} for {values.get(key)}" for key in sorted(keys)[:5])
            wrong.append(f"{state}: {len(keys)} differ ({shown})")
    return wrong


def _tail(log: Path, most: int = 3000) -> str:
    return log.read_text(errors="replace")[-most:]


def rounds(
    cluster: str,
    count: int,
    seed: int,
    *,
    seconds: float | None = None,
    keep: Path | None = None,
    delta: bool = False,
) -> Outcome:
    """Run so many rounds on a kind of cluster, `AT_ONCE` of each checkpoint; stop after `seconds`, between two."""
    total, began = Outcome(), time.monotonic()
    for first in range(0, count, AT_ONCE):
        aof: Aof | None = None if delta else random.Random(f"{seed}/{first}").choice(("always", "everysec"))
        with tempfile.TemporaryDirectory(prefix="trident-puts-", ignore_cleanup_errors=True) as folder:
            os.environ["SPARK_LOCAL_DIRS"] = f"{folder}/local"
            part = Rounds(cluster, min(AT_ONCE, count - first), seed + first, Path(folder), aof).run()
            print(
                f"{cluster}, seed {seed + first}, AOF {aof}, {time.monotonic() - began:.0f} s: {part}", file=sys.stderr
            )
            total.add(part)
            if part.wrong and keep is not None:
                _keep(Path(folder), keep)
        if part.wrong or (seconds is not None and time.monotonic() - began > seconds):
            break
    return total


def _keep(folder: Path, keep: Path) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        if path.is_file():
            (keep / path.name).write_bytes(path.read_bytes())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster.put_rounds")
    parser.add_argument("rounds", type=int)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--kind", choices=CLUSTERS, help="this kind of cluster alone")
    parser.add_argument("--keep", type=Path, help="where the logs go if a round is wrong")
    parser.add_argument("--delta", action="store_true", help="states in Delta tables, not in Redis")
    asked = parser.parse_args()
    ensure_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    shares = {asked.kind: asked.rounds} if asked.kind else dict(zip(CLUSTERS, _halves(asked.rounds), strict=True))
    total = Outcome()
    for cluster, count in shares.items():
        if count and not total.wrong:
            total.add(rounds(cluster, count, asked.seed, keep=asked.keep, delta=asked.delta))
    print(f"{total}, seed {asked.seed}")
    return 1 if total.wrong else 0


def _halves(count: int) -> tuple[int, int]:
    return count - count // 2, count // 2


if __name__ == "__main__":
    sys.exit(main())
