"""A server without a driver, and readers in a process, beside a driver that replays and is killed again and again.

Each batch adds 1 to every word: an answer is right if each of its counts is the txid that it names. So one comparison
shows a torn read, a lost batch and a doubled one.
"""

import http.client
import json
import multiprocessing
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from tests.server.endless_program import WORDS, topology_in
from tests.server.test_serve_program import ROOT, address_of
from tests.support.server import RedisServer
from tests.support.waiting import wait_until
from trident import openTopology

if TYPE_CHECKING:  # they take no type arguments when they run
    from multiprocessing.queues import Queue
    from multiprocessing.sharedctypes import Synchronized

ASKED = [WORDS[0], WORDS[13], WORDS[26], WORDS[39]]
TOLD_WITHIN = 5.0
"""Seconds within which the driver's spout hears of a commit, on a busy machine."""


@dataclass
class Found:
    """What the readers of one test have seen."""

    kills: int = 0
    requests: int = 0
    reads: int = 0
    longest: float = 0.0
    """Seconds of the slowest request."""
    wrong: list[str] = field(default_factory=list)
    told: dict[int, float] = field(default_factory=dict)
    """When batches were committed, as answers told."""

    def look(self, where: str, counts: list[int | None], txid: int, last: int) -> int:
        """Compare one answer with what it must be, and return its txid."""
        if set(counts) != {txid}:
            self.wrong.append(f"{where}: {counts} as of txid {txid}")
        if txid < last:
            self.wrong.append(f"{where}: txid {txid} after {last}")
        return txid


def reader(found: Found, work: Callable[..., None], *args: Any) -> threading.Thread:
    """Begin to read in a thread. An error of its own is something wrong, too: nothing may fail here."""

    def run() -> None:
        try:
            work(*args)
        except Exception as error:
            found.wrong.append(f"{work.__name__}: {type(error).__name__}: {error}")

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def ask(url: str, found: Found, over: Event) -> None:
    """Send requests without any second try: by turns to the function, to the state, and for one key."""
    place, last = url.removeprefix("http://"), 0
    connection = http.client.HTTPConnection(place, timeout=30)
    headers = {"content-type": "application/json"}
    keys, args = json.dumps({"keys": ASKED}), json.dumps({"args": [" ".join(ASKED)]})
    kinds = [("POST", "/drpc/counts", args), ("POST", "/state/counts", keys), ("GET", f"/state/counts/{ASKED[0]}", "")]
    while not over.is_set():
        method, path, body = kinds[found.requests % len(kinds)]
        sent, began = time.time(), time.monotonic()
        connection.request(method, path, body, headers)
        response = connection.getresponse()
        told = json.loads(response.read())
        came = time.time()
        found.longest = max(found.longest, time.monotonic() - began)
        found.requests += 1
        if response.status != 200:
            found.wrong.append(f"{method} {path}: {response.status}: {told}")
            continue
        counts = told.get("values") or [told["value"]] if "rows" not in told else [row[-1] for row in told["rows"]]
        last = found.look(path, counts, told["asOfTxid"]["words"], last)
        committed = datetime.fromisoformat(told["committedAt"]["words"]).timestamp()
        # The answer was made between these two times; it tells whole milliseconds.
        if not sent - committed - 0.002 <= told["stalenessMs"] / 1000 <= came - committed + 0.002:
            found.wrong.append(f"{path}: {told['stalenessMs']} ms old, committed at {committed}, asked at {sent}")
        found.told[last] = committed
    connection.close()


def read(folder: Path, reads: "Synchronized[int]", wrong: "Queue[list[str]]", over: Event) -> None:
    """Read four keys at a time by `openTopology`, in a process of its own, which has its interpreter to itself."""
    found, last = Found(), 0
    try:
        with openTopology(topology_in(folder), name="endless", checkpointLocation=folder / "checkpoint") as opened:
            view = opened.state("counts")
            while not over.is_set() and not found.wrong:
                for _ in range(100):
                    counts, txid = view.multiGetWithTxid(ASKED)
                    assert txid is not None
                    last = found.look("openTopology", counts, txid, last)
                with reads.get_lock():
                    reads.value += 100
    except Exception as error:
        found.wrong.append(f"read: {type(error).__name__}: {error}")
    wrong.put(found.wrong)


@contextmanager
def driver(folder: Path) -> Iterator[None]:
    """Run the driver as a process that is killed at the end."""
    command = [sys.executable, "-m", "tests.server.endless_program", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def server(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "trident", "serve", "tests.server.endless_program:topology", "--name", "endless"]
    options = ["--checkpoint", str(folder / "checkpoint"), "--port", "0"]
    log = folder / "server.log"
    with log.open("w") as file:
        process = subprocess.Popen([*command, *options], cwd=ROOT, stderr=file)
    try:
        yield address_of(process, log)
    finally:
        process.terminate()
        process.wait(20)


def heard(folder: Path) -> dict[int, float]:
    """Return when the driver's spout heard of each batch."""
    pairs = [line.split() for line in (folder / "heard").read_text().splitlines()]
    return {int(pair[0]): float(pair[1]) for pair in pairs if len(pair) == 2}


def kill_drivers(folder: Path, kills: int, reads: int, draws: random.Random) -> tuple[Found, int]:
    """Kill the driver so often, and until there were so many reads. Return what was seen, and the last txid.

    Four of five drivers commit batches for up to a second before they die; the others die while they start.
    """
    found, processes = Found(), multiprocessing.get_context("spawn")
    over, count, wrong = processes.Event(), processes.Value("q", 0), processes.Queue()
    reading = processes.Process(target=read, args=(folder, count, wrong, over))
    with driver(folder):
        wait_until(lambda: (folder / "heard").exists(), 60)
    with server(folder) as url:
        threads = [reader(found, ask, url, found, over) for _ in range(2)]
        reading.start()
        try:
            while (found.kills < kills or count.value < reads) and not found.wrong and reading.is_alive():
                size = (folder / "heard").stat().st_size
                with driver(folder):
                    if draws.random() < 0.8:
                        wait_until(lambda size=size: (folder / "heard").stat().st_size > size, 60)
                    time.sleep(draws.uniform(0, 1))
                found.kills += 1
        finally:
            over.set()
            for thread in threads:
                thread.join(60)
            found.wrong += wrong.get(timeout=60)
            reading.join(60)
            found.reads = count.value
    noted = heard(folder)
    for txid, committed in found.told.items():
        # A driver that was killed first has not noted it.
        if txid in noted and not -0.01 <= noted[txid] - committed <= TOLD_WITHIN:
            found.wrong.append(f"txid {txid}: told {committed}, heard of at {noted[txid]}")
    return found, max(noted)


@pytest.mark.soak  # each life of a driver is a process
@pytest.mark.parametrize("home", ["memory", "redis"])
def test_answers_go_on_and_never_back_while_drivers_are_killed(
    home: str, tmp_path: Path, shared_redis: RedisServer
) -> None:
    with mock.patch.dict(os.environ, {"ENDLESS_REDIS": shared_redis.url if home == "redis" else ""}):
        found, last = kill_drivers(tmp_path, 2, 100, random.Random(3))
    assert found.wrong == []
    assert last > 5 and found.requests > 50 and len(found.told) > 5, "too little happened: this shows nothing"


@pytest.mark.soak
@pytest.mark.parametrize("home", ["memory", "redis"])
def test_fifty_drivers_killed_beside_a_million_reads(
    home: str, tmp_path: Path, shared_redis: RedisServer, capfd: pytest.CaptureFixture[str]
) -> None:
    with mock.patch.dict(os.environ, {"ENDLESS_REDIS": shared_redis.url if home == "redis" else ""}):
        found, last = kill_drivers(tmp_path, 50, 1_000_000, random.Random(5))
    with capfd.disabled():
        told = f"{found.kills} kills; {found.requests} requests, the slowest {found.longest:.2f} s"
        shown = f"{found.reads} reads; {last} batches, {len(found.told)} of them shown"
        print(f"\n{home}: {told}; {shown}", end=" ", flush=True)
    assert found.wrong == []
    assert last > found.kills and len(found.told) > 50, "too little happened: this shows nothing"
