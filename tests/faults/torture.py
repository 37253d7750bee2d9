"""Kills everything that can be killed, every few seconds, on real Spark, and looks for a count that is wrong.

Round after round a topology counts an endless stream into two states in Redis and one in memory, while its server is
killed and restarted (in turn with an AOF that is written always, every second, and not at all), its driver is killed,
and its Python workers are; a reader reads all states all the time. At the end of a round the sums of every state must
be those of the stream up to where it came: count and checksum of every key. A server that does not write everything
loses some at a kill: it must be healed, or the start must end in StateLostError, as docs/faults.md says.

In turn the stream comes from a spout that makes numbers up, from a Kafka broker and from a Redis with streams, which
are killed too: then everything that was written there must be in the sums. Each round draws a kind of spout and a kind
of state. Where the states' server keeps everything, a non-transactional state must have lost nothing.

    python -m tests.faults.torture 10        ten minutes; ends non-zero if there was any error
    python -m tests.faults.torture 0.7 --aof everysec
    python -m tests.faults.torture 120 --source kafka --rounds 100 --seconds 20
"""

import argparse
import contextlib
import itertools
import json
import os
import queue
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any, get_args

from tests.faults.torture_driver import LOOSE, STATES, expected
from tests.faults.torture_sources import SOURCES, Source, described, kafka_out_of_reach, opened
from tests.support.processes import descendants, state_of
from tests.support.server import Aof, RedisServer
from trident.base.java import ensure_java

ROOT = Path(__file__).parents[2]
CADENCE = (0.5, 4.0)
"""Seconds from one kill to the next, at least and at most."""
PATIENCE = 180.0
"""Seconds without a committed batch after which a driver counts as hanging."""
ROUND = 60.0
"""Seconds that a round is tortured, once its driver is up."""
FIRST = ("server", "worker", "driver", "server")
"""What every round kills, however slow the machine is."""
LATER = {"server": 10, "worker": 8, "source": 6, "driver": 2, "java": 1}
"""What it kills then, and how often: whatever ends a Spark more rarely, because a new one takes its time to start."""
AFTER_JAVA = ("BatchFailedError",)
"""How a driver ends whose Spark is gone."""
MAY_STOP: dict[str, tuple[str, ...]] = {"always": (), "everysec": ("StateLostError",), "none": ("StateLostError",)}
"""By what a driver may refuse to go on: a server that came back without its states cannot be healed by a new driver."""


@dataclass
class Toll:
    """What was done, and what was found."""

    rounds: Counter[str] = field(default_factory=Counter)
    cells: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    batches: int = 0
    reads: int = 0
    waits: int = 0
    records: int = 0
    errors: list[tuple[str, str]] = field(default_factory=list)

    def error(self, kind: str, what: str) -> None:
        self.errors.append((kind, what))
        print(f"ERROR {kind}: {what}", flush=True)

    def __str__(self) -> str:
        kills = ", ".join(f"{count} of the {name}" for name, count in sorted(self.kills.items()))
        rounds = ", ".join(f"{count} {aof}" for aof, count in self.rounds.items())
        cells = ", ".join(f"{count} {cell}" for cell, count in sorted(self.cells.items()))
        stops = ", ".join(f"{count} {name}" for name, count in self.stops.items()) or "none"
        found = Counter(kind for kind, _ in self.errors)
        errors = ", ".join(f"{count} {kind}" for kind, count in found.items()) or "none"
        reads = f"{self.reads} reads of three states checked, {self.waits} had to wait"
        return (
            f"rounds by AOF: {rounds}\nrounds by source, spout and state: {cells}\nkills: {kills}\n"
            f"{self.batches} batches of {self.records} records checked; {reads}\ntyped stops: {stops}\nerrors: {errors}"
        )


class Driver:
    """A driver process of ours, what it says, and the processes that it has started."""

    def __init__(self, folder: Path, url: str, source: str, environment: Mapping[str, str]) -> None:
        command = [sys.executable, "-m", "tests.faults.torture_driver", str(folder), url, source]
        env = {**os.environ, **environment}
        with (folder / "driver.log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=log, text=True, env=env)
        self._said: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @property
    def over(self) -> bool:
        return self._process.poll() is not None

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):  # a line cut off by a kill
                self._said.put(json.loads(line))

    def hear(self) -> Iterator[dict[str, Any]]:
        """What it said since."""
        while True:
            try:
                yield self._said.get_nowait()
            except queue.Empty:
                return

    def kill(self) -> None:
        """SIGKILL; what it had started is waited for, and what stays behind is killed too."""
        children = descendants(self._process.pid)
        self._process.kill()
        self._process.wait()
        deadline = time.monotonic() + 10
        while any(map(_alive, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        for pid in filter(_alive, children):
            _kill(pid)
        self._thread.join()

    def wait(self, timeout: float) -> bool:
        """Whether it ended by itself in that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout)
            self._thread.join()
            return True
        return False

    def kill_worker(self, chance: random.Random) -> bool:
        """SIGKILL one of its Python workers (or the process that forks them); False if there is none now."""
        workers = [pid for pid, command in descendants(self._process.pid).items() if "pyspark.daemon" in command]
        return bool(workers) and _kill(chance.choice(workers))

    def where(self, log: Path) -> str:
        """What its threads are doing."""
        self._process.send_signal(signal.SIGUSR1)
        time.sleep(1)
        return log.read_text()[-6000:]

    def kill_java(self) -> None:
        """SIGKILL its Spark's Java."""
        for pid, command in descendants(self._process.pid).items():
            if "org.apache.spark.deploy.SparkSubmit" in command:
                _kill(pid)


def _alive(pid: int) -> bool:
    return state_of(pid) not in ("", "Z")


def _kill(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


class Round:
    """One topology from its birth until its last count is compared."""

    def __init__(self, folder: Path, aof: Aof, seconds: float, toll: Toll, seed: int, source: str = "numbers") -> None:
        self._folder, self._aof, self._seconds, self._toll = folder, aof, seconds, toll
        self._random = random.Random(seed)
        self._from, self._loose = source, source != "numbers" and aof == "always"
        kinds = ["opaque"] if source == "numbers" else ["transactional", "opaque"]
        self._spout, self._state = self._random.choice(kinds), self._random.choice(kinds)
        self._source: Source | None = None
        self._committed = self._reads = self._waits = 0
        self._moved = 0.0
        self._last: dict[str, Any] | None = None
        self._stopped = False
        self._told: str | None = None
        self._bereft = False
        """Whether its driver has just lost its Spark."""

    def go(self) -> None:
        self._toll.rounds[self._aof] += 1
        self._toll.cells[f"{self._from} {self._spout}/{self._state}{' +loose' * self._loose}"] += 1
        with (
            RedisServer(self._folder / "redis", self._aof) as self._server,
            opened(self._from, self._folder) as self._source,
        ):
            self._driver = self._start()
            try:
                self._torture()
                if not self._stopped:
                    self._settle()
            finally:
                self._driver.kill()
        self._toll.batches += self._committed

    # --- killing ---------------------------------------------------------------------------------------------

    def _torture(self) -> None:
        self._await_progress()
        until = time.monotonic() + self._seconds
        for number, kind in enumerate(self._kinds()):
            enough = number >= len(FIRST) + (self._source is not None)
            if self._stopped or (enough and time.monotonic() >= until):
                return
            if not getattr(self, f"_kill_{kind}")():
                continue
            self._toll.kills[kind] += 1
            if kind in ("driver", "java"):
                self._await_progress()
            self._pause(self._random.uniform(*CADENCE))

    def _kinds(self) -> Iterator[str]:
        yield from FIRST
        if self._source is not None:
            yield "source"
        later = {kind: often for kind, often in LATER.items() if kind != "source" or self._source is not None}
        while True:
            yield from self._random.choices([*later], [*later.values()])

    def _kill_server(self) -> bool:
        if self._aof == "none" and self._random.random() < 0.7:
            self._server.client.save()  # what it comes back to
            time.sleep(self._random.uniform(0, 0.5))
        self._server.kill()
        time.sleep(self._random.uniform(0, 0.3))
        self._server.start()
        return True

    def _kill_source(self) -> bool:
        assert self._source is not None
        self._source.kill()
        return True

    def _kill_worker(self) -> bool:
        for _ in range(50):
            if self._driver.kill_worker(self._random):
                return True
            self._pause(0.1)
        return False

    def _kill_driver(self) -> bool:
        self._driver.kill()
        self._listen()
        self._restart()
        return True

    def _kill_java(self) -> bool:
        """The driver lives on, and must end by itself with an error that says so."""
        self._bereft = True
        self._driver.kill_java()
        until = time.monotonic() + PATIENCE
        while not self._driver.over and time.monotonic() < until and not self._stopped:
            time.sleep(0.05)
            self._listen()
        if not self._driver.over and not self._stopped:
            self._stop("hang", f"a driver without its Spark did not end within {PATIENCE:g} s")
        self._driver.kill()
        self._listen()
        self._bereft = False
        if not self._stopped:
            self._restart()
        return True

    def _restart(self) -> None:
        self._reads = self._waits = 0
        self._told = None
        self._driver = self._start()

    def _start(self) -> Driver:
        what = described(self._from, self._source, self._spout, self._state, self._loose)
        environment = {} if self._source is None else self._source.environment
        return Driver(self._folder, self._server.url, what, environment)

    # --- watching --------------------------------------------------------------------------------------------

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self._stopped:
            time.sleep(0.05)
            self._look()

    def _await_progress(self) -> None:
        """Until this driver has committed something."""
        self._moved = time.monotonic()
        before = self._committed
        while self._committed <= before and not self._stopped:
            time.sleep(0.05)
            self._look()

    def _look(self) -> None:
        self._listen()
        if self._last is None and self._driver.over and not self._stopped:
            self._driver.wait(5)
            self._listen()
            if not self._stopped:
                self._stop("driver ended", (self._folder / "driver.log").read_text()[-1500:])
        if time.monotonic() - self._moved > PATIENCE and not self._stopped:
            where = self._driver.where(self._folder / "driver.log")
            self._stop("hang", f"no batch was committed for {PATIENCE:g} s; it last told {self._told}\n{where}")

    def _stop(self, kind: str, what: str) -> None:
        self._stopped = True
        self._toll.error(kind, what)

    def _listen(self) -> None:
        for said in self._driver.hear():
            if "error" in said:
                self._toll.error(said["error"], said["what"])
            elif "stopped" in said:
                self._told_why(said)
            elif "sums" in said:
                self._last = said
            else:
                self._count(said)

    def _count(self, said: dict[str, Any]) -> None:
        if self._told is None:  # its Spark is up: from now on batches are to come
            self._moved = time.monotonic()
        self._told = said["told"]
        if said["committed"] > self._committed:
            self._moved = time.monotonic()
        elif said["committed"] < self._committed:
            self._toll.error("txid went back", f"{said['committed']} after {self._committed}")
        self._committed = max(self._committed, said["committed"])
        self._toll.reads += said["reads"] - self._reads
        self._toll.waits += said["waits"] - self._waits
        self._reads, self._waits = said["reads"], said["waits"]

    def _told_why(self, said: dict[str, Any]) -> None:
        if self._bereft and said["stopped"] in AFTER_JAVA:
            return
        self._stopped = True
        if said["stopped"] in MAY_STOP[self._aof]:
            self._toll.stops[said["stopped"]] += 1
        else:
            self._toll.error(f"stop by {said['stopped']}", said["what"])

    # --- the last count --------------------------------------------------------------------------------------

    def _settle(self) -> None:
        """No more kills: everything is committed, and every sum is compared."""
        written = None if self._source is None else self._source.stop()
        (self._folder / "stop").touch()
        self._moved = time.monotonic()
        while self._last is None and not self._stopped:
            time.sleep(0.05)
            self._look()
        if self._last is None:
            return
        ends = self._last["ends"]
        if written is not None and ends != written:
            self._toll.error("not all was read", f"up to {ends}, there are {written}")
        self._toll.records += sum(ends)
        wanted = expected(ends)
        for state in STATES:
            for kind, what in differences(wanted, self._last["sums"][state]):
                self._toll.error(kind, f"state {state!r}, {what}")
        for kind, what in differences(wanted, self._last["sums"].get(LOOSE, wanted)):
            if kind == "lost":
                self._toll.error(kind, f"state {LOOSE!r}, {what}")


def differences(wanted: dict[str, int], found: dict[str, int]) -> Iterator[tuple[str, str]]:
    """What is wrong with these sums: records lost or doubled, or others than there were."""
    for word in sorted({*wanted, *found}):
        right, is_ = wanted.get(word, 0), found.get(word, 0)
        if right != is_:
            more = (is_ >> 40) - (right >> 40)
            kind = "lost" if more < 0 else "doubled" if more > 0 else "other records"
            yield kind, f"{word!r}: {is_ >> 40} records, there were {right >> 40} (sums {is_} and {right})"


def torture(
    minutes: float,
    modes: Sequence[Aof],
    seed: int,
    sources: Sequence[str] = tuple(SOURCES),
    rounds: float = inf,
    seconds: float = ROUND,
) -> Toll:
    """Round after round, the sources and modes in turn, for so many minutes or rounds."""
    ensure_java()
    toll, end = Toll(), time.monotonic() + 60 * minutes
    sources = _within_reach(sources)
    for number in itertools.count():
        left = end - time.monotonic()
        if number >= rounds or (number and left < seconds / 2):
            break
        source = sources[(seed + number) % len(sources)]
        aof = modes[(number + number // len(sources)) % len(modes)]  # each source meets each mode
        with tempfile.TemporaryDirectory(prefix="trident-torture-", ignore_cleanup_errors=True) as folder:
            Round(Path(folder), aof, max(5.0, min(seconds, left - 15)), toll, seed + number, source).go()
        kills, errors = sum(toll.kills.values()), len(toll.errors)
        print(f"round {number + 1} ({source}, {aof}): {kills} kills, {errors} errors", flush=True)
    return toll


def _within_reach(sources: Sequence[str]) -> list[str]:
    """Return the sources that this machine has, and tell of the others."""
    if "kafka" in sources and (reason := kafka_out_of_reach()):
        print(f"no rounds from Kafka: {reason}", flush=True)
        sources = [name for name in sources if name != "kafka"]
    return [*sources]


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills everything that can be killed, and compares every count.")
    parser.add_argument("minutes", type=float)
    parser.add_argument("--aof", choices=get_args(Aof), help="one way only; else all in turn")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--source", choices=[*SOURCES], help="one source only; else all in turn")
    parser.add_argument("--rounds", type=float, default=inf, help="end after so many rounds")
    parser.add_argument("--seconds", type=float, default=ROUND, help="how long a round is tortured (%(default)s)")
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    modes, sources = (given.aof,) if given.aof else get_args(Aof), (given.source,) if given.source else tuple(SOURCES)
    toll = torture(given.minutes, modes, given.seed, sources, given.rounds, given.seconds)
    print(toll)
    return 1 if toll.errors else 0


if __name__ == "__main__":
    sys.exit(main())
