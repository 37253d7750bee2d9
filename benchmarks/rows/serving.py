"""Requests over HTTP to a server without a driver, while the topology commits beside it."""

import contextlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

from benchmarks.bench import Bench
from benchmarks.beside import beside
from benchmarks.check import WrongAnswerError
from benchmarks.http_load import Answered, load_server
from benchmarks.row import Row
from benchmarks.timing import median, percentile
from benchmarks.workload import Workload

CONNECTIONS = 16
_START_SECONDS = 30
BODY = json.dumps({"args": ["word0 word10 word100 word999"]}).encode()


def serving(bench: Bench, load: Workload) -> Iterator[Row]:
    """Ask for four keys, and for a constant, round after round, of the same process."""
    seconds = 1.0 if bench.scale.warm is False else 4.0
    for name, url in {"memory": "", "redis": bench.server.url}.items():
        folder = bench.fresh()
        with contextlib.ExitStack() as stack:
            stack.enter_context(mock.patch.dict(os.environ, {"SERVED_REDIS": url}))
            driver = contextlib.ExitStack()
            # The driver has a process of its own: beside the client it would slow the client down, and not the server.
            stack.enter_context(driver).enter_context(beside("served_program", str(folder)))
            address = stack.enter_context(_server(folder))
            yield from _rows(f"serving.{name}", f"{name} state", "beside commits", bench, address, seconds)
            driver.close()
            yield from _rows(f"serving.{name}.idle", f"{name} state", "without commits", bench, address, seconds)
        bench.drop(folder)


def _rows(name: str, state: str, when: str, bench: Bench, address: str, seconds: float) -> Iterator[Row]:
    rates: list[float] = []
    constants: list[float] = []
    took: list[float] = []
    for number in bench.scale.turns:
        before = committed(address)
        asked = load_server(address, "POST", "/drpc/total", BODY, CONNECTIONS, seconds)
        constant = load_server(address, "GET", "/healthz", b"", CONNECTIONS, seconds)
        _check(asked)
        _check(constant)
        print(f"    round {number}: {committed(address) - before} batches meanwhile", flush=True)
        if number:
            rates.append(asked.rate)
            constants.append(constant.rate)
            took += asked.took
    what = f"four keys over HTTP, {state}, {CONNECTIONS} connections, {when}"
    text = f"{what}; against the same server answering a constant"
    yield Row(name, text, median(rates), median(constants), "requests/s", 0.5)
    p50, p99 = percentile(took, 50) * 1000, percentile(took, 99) * 1000
    yield Row(f"{name}.p99", f"{what}: p99 against p50", p99, p50, "ms", 10.0, "at most")


def _check(answered: Answered) -> None:
    if answered.errors:
        raise WrongAnswerError(f"{len(answered.errors)} errors of {len(answered.took)}: {answered.errors[0]}")


def committed(address: str, token: str = "") -> int:
    """Return the txid that the server shows."""
    headers = {"content-type": "application/json", "authorization": f"Bearer {token}"}
    request = urllib.request.Request(f"{address}/drpc/total", BODY, headers)
    with urllib.request.urlopen(request) as answer:
        return int(json.load(answer)["asOfTxid"]["numbers"])


@contextmanager
def _server(folder: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "trident", "serve", "benchmarks.served_program:topology", "--name", "served"]
    told = folder / "server.log"  # not a pipe: a server whose pipe nobody reads stops when it is full
    with told.open("w") as log:
        process = subprocess.Popen([*command, "--checkpoint", str(folder), "--port", "0"], stderr=log)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while (found := re.search(r"http://\S+", told.read_text())) is None:
            if process.poll() is not None or time.monotonic() > deadline:
                raise WrongAnswerError(f"the server did not start: {told.read_text()}")
            time.sleep(0.02)
        yield found[0]
    finally:
        process.terminate()
        process.wait(10)
