"""Commits beside clients that mean harm: how many a topology makes that serves from its own process."""

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import FULL, Bench
from benchmarks.check import WrongAnswerError
from benchmarks.row import Row
from benchmarks.rows.serving import committed
from benchmarks.timing import median
from benchmarks.workload import Workload

CONNECTIONS = 10_000

EXPECTED = {
    "oversized": {"413"},
    "deep": {"400"},
    "slow body": {"408"},
    "wrong token": {"401"},
    "wrong host": {"421", "400", "403"},
    "unknown function": {"404"},
    "sleeping function": {"504"},
}
"""The statuses of the answers to each kind of request."""


def hostile(bench: Bench, load: Workload) -> Iterator[Row]:
    """Count the batches that are committed in some seconds, with bad requests and without, round after round."""
    seconds, connections = (5.0, CONNECTIONS) if bench.scale == FULL else (1.0, 100)
    rates: dict[bool, list[float]] = {False: [], True: []}
    folder = bench.fresh()
    with _serving_driver(folder) as address:
        for number in bench.scale.turns:
            quiet = _commits(address, seconds)
            with _client(address, connections):
                beside = _commits(address, seconds)
            print(f"    round {number}: {quiet:.1f} batches/s, beside bad requests {beside:.1f}", flush=True)
            if number:
                rates[False].append(quiet)
                rates[True].append(beside)
    bench.drop(folder)
    text = f"batches committed beside bad requests over {connections} connections more; against none"
    yield Row("serving.hostile", text, median(rates[True]), median(rates[False]), "batches/s", 0.9)


def _commits(address: str, seconds: float) -> float:
    began, before = time.perf_counter(), committed(address)
    time.sleep(seconds)
    return (committed(address) - before) / (time.perf_counter() - began)


@contextmanager
def _serving_driver(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "benchmarks.served_program", str(folder), "serve"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        if (found := re.match(r"started (http://\S+)", process.stdout.readline())) is None:
            raise WrongAnswerError("the driver did not start")
        yield found[1]
        process.stdin.close()


@contextmanager
def _client(address: str, connections: int) -> Iterator[None]:
    """Have a client send bad requests, and check its answers at the end."""
    command = [sys.executable, "-m", "benchmarks.hostile_client", address, str(connections)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        if process.stdout.readline() != "ready\n":
            raise WrongAnswerError("the client did not start")
        yield
        process.stdin.close()
        answers = json.loads(process.stdout.read())
    wrong = {kind: counts for kind, counts in answers.items() if not set(counts) <= EXPECTED[kind]}
    if wrong or set(answers) != set(EXPECTED):
        raise WrongAnswerError(f"bad requests were answered by {answers}")
