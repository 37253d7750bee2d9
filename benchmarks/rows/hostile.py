"""Commits beside clients that mean harm: how many a topology makes that serves from its own process."""

import json
import time
from collections.abc import Iterator, Mapping

from benchmarks.bench import FULL, Bench
from benchmarks.beside import beside
from benchmarks.check import WrongAnswerError
from benchmarks.row import Row
from benchmarks.rows.serving import committed
from benchmarks.served_program import TOKEN
from benchmarks.timing import median
from benchmarks.workload import Workload

CONNECTIONS = 10_000

EXPECTED = {
    "oversized": "413",
    "deep": "400",
    "slow body": "408",
    "wrong token": "401",
    "wrong host": "421",
    "unknown function": "404",
    "sleeping function": "504",
}
"""The status of the answer to each kind of request."""


def hostile(bench: Bench, load: Workload) -> Iterator[Row]:
    """Count the batches that are committed in some seconds, with bad requests and without, round after round."""
    seconds, connections = (5.0, CONNECTIONS) if bench.scale == FULL else (1.0, 100)
    rates: dict[bool, list[float]] = {False: [], True: []}
    folder = bench.fresh()
    with beside("served_program", str(folder), "serve") as driver:
        address = driver.first.removeprefix("started ")
        for number in bench.scale.turns:
            quiet = _commits(address, seconds)
            with beside("hostile_client", address, str(connections), TOKEN) as client:
                disturbed = _commits(address, seconds)
            _check(json.loads(client.rest))
            print(f"    round {number}: {quiet:.1f} batches/s, beside bad requests {disturbed:.1f}", flush=True)
            if number:
                rates[False].append(quiet)
                rates[True].append(disturbed)
    bench.drop(folder)
    text = f"batches committed beside bad requests over {connections} connections more; against none"
    yield Row("serving.hostile", text, median(rates[True]), median(rates[False]), "batches/s", 0.9)


def _commits(address: str, seconds: float) -> float:
    began, before = time.perf_counter(), committed(address, TOKEN)
    time.sleep(seconds)
    return (committed(address, TOKEN) - before) / (time.perf_counter() - began)


def _check(answers: Mapping[str, Mapping[str, int]]) -> None:
    """Raise WrongAnswerError unless each kind of request was answered as it ought to be."""
    wrong = {kind: counts for kind, counts in answers.items() if set(counts) != {EXPECTED[kind]}}
    if wrong or set(answers) != set(EXPECTED):
        raise WrongAnswerError(f"bad requests were answered by {answers}")
