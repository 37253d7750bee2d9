"""Readers of a state's changes, a writer and a server without it, each a process, killed at random and started again.

A round: the writer commits small batches for about a second and is killed; meanwhile readers are killed, and sometimes
the server. A reader keeps its place and the values that it folded in one file, replaced at once. When nothing is
written any more, what each reader has must be what the server reads from the state. In between, every change that a
reader folds must leave the values of one batch: the count under TOTAL is that of all other words together.
"""

import json
import multiprocessing
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.support.server import free_port
from tests.support.waiting import wait_until
from trident import CombinerAggregator, Count, DRPCClient, TridentTopology, openTopology
from trident.errors import TridentError
from trident.server.http_server import serve
from trident.spouts import PollingSpout
from trident.state import MemoryMapState, RedisMapState, StateFactory

TOTAL = "!total"
WORDS = [f"word {number}" for number in range(60)]
STATES = ("memory", "memoryFives", "redis", "redisFives")
NAME = "feed"
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.server.feed_rounds", "httpx", "trident.compiler.engine", "trident.server.app"])


class Fives(CombinerAggregator):
    """Count to four; the fifth removes the key."""

    def init(self, values: Any) -> int:
        return 1

    def combine(self, left: int | None, right: int | None) -> int | None:
        total = (left or 0) + (right or 0)
        return total if total < 5 else None

    def zero(self) -> int:
        return 0


def some(name: str, position: Any, limit: int) -> tuple[list[str], int]:
    """Return the next words of an endless stream: few, many, or none that change anything for a while."""
    at = position or 0
    time.sleep(0.005)
    chance = random.Random(f"{name} {at}")
    return [chance.choice(WORDS) for _ in range(chance.choice((1, 3, 20)))], at + 1


def topology_of(redis: str) -> TridentTopology:
    topology = TridentTopology()
    factories: dict[str, StateFactory] = {
        "memory": MemoryMapState.opaque(),
        "redis": RedisMapState.opaque(redis),
    }
    for name, factory in factories.items():
        words = topology.newStream(name, PollingSpout("word string", {"all": partial(some, name)}, maxRows=100))
        both = words.flatMap("word", lambda word: [word, TOTAL], "counted string")
        both.groupBy("counted").persistentAggregate(factory, Count(), "count", name=name)
        words.groupBy("word").persistentAggregate(factory, "word", Fives(), "left int", name=f"{name}Fives")
    return topology


def write(redis: str, checkpoint: str) -> None:
    """Run the topology until killed, with a log that keeps little."""
    running = topology_of(redis).start(engine="embedded", name=NAME, checkpointLocation=checkpoint, rewindBytes=100_000)
    running.awaitTermination()


def answer(redis: str, checkpoint: str, port: int) -> None:
    """Serve without a driver until killed."""
    while True:
        try:
            opened = openTopology(topology_of(redis), name=NAME, checkpointLocation=checkpoint)
            break
        except TridentError:  # the writer has not made all states yet
            time.sleep(0.1)
    serve(opened, port, "127.0.0.1", None, (), None, insecure=False)
    time.sleep(3600)


def read(url: str, state: str, file: str) -> None:
    """Fold the changes of a state into a file until killed; fold on from what the file holds."""
    path = Path(file)
    held = json.loads(path.read_text()) if path.exists() else {"position": None, "txid": -1, "values": {}}
    values, counts = held["values"], Counter(held.get("counts", {}))
    with DRPCClient(url, timeout=120) as client:
        changes = client.changes(state, after=held["position"], snapshot=held["position"] is None)
        if held["position"] is not None:
            changes = client.changes(state, after=held["position"])
        while True:
            try:
                change = next(changes)
            except TridentError as error:
                if type(error).__name__ != "ChangesMissedError":
                    path.with_suffix(".error").write_text(f"{type(error).__name__}: {error}")
                    raise
                counts["missed"] += 1
                changes = client.changes(state, snapshot=True)
                continue
            known = held["txid"]
            if not change.snapshot and not known <= change.after < change.txid:
                path.with_suffix(".error").write_text(f"{state}: from {change.after} to {change.txid} after {known}")
                raise AssertionError
            if change.snapshot:
                values = {}
            values |= {row[0]: row[1] for row in change.rows}
            for row in change.removed:
                values.pop(row[0], None)
            total = sum(count for word, count in values.items() if word != TOTAL)
            if TOTAL in values and total != values[TOTAL]:
                path.with_suffix(".error").write_text(f"{state} at {change.txid}: {total}, and {values[TOTAL]} in all")
                raise AssertionError
            counts["snapshots" if change.snapshot else "changes"] += 1
            counts["of several batches"] += change.txid - change.after > 1 and not change.snapshot
            counts["batches"] += 0 if change.snapshot else change.txid - change.after
            counts["removed"] += len(change.removed)
            held = {"position": change.position, "txid": change.txid, "values": values, "counts": counts}
            partly = path.with_suffix(".part")
            partly.write_text(json.dumps(held))
            partly.replace(path)


@dataclass
class Rounds:
    """All processes of some rounds."""

    redis: str
    folder: Path
    seed: int
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._chance = random.Random(self.seed)
        self._port = free_port()
        self._url = f"http://127.0.0.1:{self._port}"
        self._checkpoint = str(self.folder / "checkpoint")
        self._living: dict[str, BaseProcess] = {}

    def run(self, rounds: int) -> Counter[str]:
        """Run some rounds, and return what happened. Raises AssertionError if a reader has anything else."""
        try:
            for number in range(rounds):
                self._round(number)
        finally:
            for process in self._living.values():
                process.kill()
                process.join()
        for state in STATES:
            self.counts.update(self._held(state)["counts"])
        return self.counts

    def _round(self, number: int) -> None:
        self._start("writer", write, self.redis, self._checkpoint)
        if number == 0:
            self._start_server()
        for state in STATES:
            self._start_reader(state)
        before = {state: self._held(state)["txid"] for state in STATES}
        wait_until(lambda: any(self._held(state)["txid"] > before[state] for state in STATES), 60)
        until = time.monotonic() + self._chance.uniform(0.3, 1.5)
        while time.monotonic() < until:
            time.sleep(self._chance.uniform(0.02, 0.4))
            state = self._chance.choice(STATES)
            self._kill(state)
            if self._chance.random() < 0.1:
                Path(self._file(state)).unlink(missing_ok=True)  # it begins anew, with a snapshot under fire
            self._start_reader(state)
        if self._chance.random() < 0.25:
            self._kill("server")
            self._start_server()
        if self._chance.random() < 0.3:
            self._kill(self._chance.choice(STATES))  # while the writer goes on, for long enough to miss some batches
            time.sleep(1)
        self._kill("writer")
        self._compare()
        self.counts["rounds"] += 1

    def _compare(self) -> None:
        """Wait until the readers are where the server is, and compare."""
        for state in STATES:
            self._start_reader(state)
        with DRPCClient(self._url, timeout=60) as client:
            for state in STATES:

                def same(state: str = state) -> bool:
                    self._check(state)
                    page = next(client.scan(state))
                    return {row[0]: row[1] for row in page} == self._held(state)["values"]

                try:
                    wait_until(same, 30)
                except AssertionError:
                    page = next(client.scan(state))
                    stored = {row[0]: row[1] for row in page}
                    held = self._held(state)
                    different = {word: (stored.get(word), held["values"].get(word)) for word in stored | held["values"]}
                    different = {word: both for word, both in different.items() if both[0] != both[1]}
                    raise AssertionError(
                        f"seed {self.seed}: {state} at {held['position']}, the server at {page.txids}: {different}"
                    ) from None

    def _check(self, state: str) -> None:
        error = Path(self._file(state)).with_suffix(".error")
        assert not error.exists(), f"seed {self.seed}: {error.read_text()}"

    def _held(self, state: str) -> dict[str, Any]:
        path = Path(self._file(state))
        none: dict[str, Any] = {"position": None, "txid": -1, "values": {}, "counts": {}}
        held: dict[str, Any] = json.loads(path.read_text()) if path.exists() else none
        return held

    def _file(self, state: str) -> str:
        return str(self.folder / f"{state}.json")

    def _start_server(self) -> None:
        self._start("server", answer, self.redis, self._checkpoint, self._port)

    def _start_reader(self, state: str) -> None:
        self._check(state)
        living = self._living.get(state)
        if living is None or not living.is_alive():
            self._start(state, read, self._url, state, self._file(state))

    def _start(self, name: str, target: Any, *args: Any) -> None:
        process = _FORKS.Process(target=target, args=args, daemon=True)
        process.start()
        self._living[name] = process

    def _kill(self, name: str) -> None:
        """Kill a process by SIGKILL, and wait for its end."""
        if name in self._living:
            os.kill(self._living[name].pid or 0, 9) if self._living[name].is_alive() else None
            self._living.pop(name).join()
            self.counts[f"{name if name in ('writer', 'server') else 'reader'} killed"] += 1
