"""Executors as writers: a batch of very many distinct keys into Redis or a table, and what it costs the driver."""

import json
import subprocess
import sys
from collections.abc import Iterator
from statistics import median
from typing import Any

from benchmarks.bench import FULL, Bench
from benchmarks.row import Row
from benchmarks.workload import Workload
from tests.support.standalone import StandaloneCluster

_CLUSTER = "local-cluster[2,1,2048]"
_TURNS = ["executors"] * 3
_LIMIT = 3600
_COSTLY = "statefulEach with a function of 50 µs over {} tuples"


def carrier(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure both writers in turns on the same two cores; then the driver's memory, executors in processes apart."""
    many, most, few = (1_000_000, 10_000_000, 10_000) if bench.scale == FULL else (20_000, 20_000, 2_000)
    turns = ["driver", "executors"] * (2 if bench.scale == FULL else 1)
    took = _driven(bench, "local[2]", many, turns)["took"]
    for what, shown in (("total", "from commit to commit"), ("commit", "its commit")):
        ours, other = (many / median(took[writers][what]) for writers in ("executors", "driver"))
        text = f"{many} distinct keys a batch into opaque Redis, {shown}: by executors against by the driver"
        yield Row(f"carrier.{what}", text, ours, other, "keys/s", 1.0 if what == "total" else None)
    took = _driven(bench, "local[2]", many, turns, "asks")["took"]
    ours, other = (many / median(took[writers]["total"]) for writers in ("executors", "driver"))
    text = f"stateQuery of {many} tuples a batch, from commit to commit: the executors ask, against the driver"
    yield Row("carrier.asks", text, ours, other, "tuples/s", 2.0)
    took = _driven(bench, "local[2]", many, turns, "updates")["took"]
    for what, shown in (("total", "from commit to commit"), ("commit", "its commit")):
        ours, other = (many / median(took[writers][what]) for writers in ("executors", "driver"))
        text = f"statefulEach over {many} tuples of as many keys, opaque Redis, {shown}: executors against the driver"
        yield Row(f"carrier.updates.{what}", text, ours, other, "tuples/s", 1.0 if what == "total" else None)
    some = many // 4
    took = _driven(bench, "local[2]", some, turns, "sessions")["took"]
    ours, other = (some / median(took[writers]["total"]) for writers in ("executors", "driver"))
    text = f"sessions, of which a batch opens {some} and closes as many, commit to commit: executors against driver"
    yield Row("carrier.sessions", text, ours, other, "sessions/s", None)
    yield from _by_executors(bench, many)
    for program, name, large in (("puts", "carrier.memory", most), ("updates", "carrier.updates.memory", many)):
        yield from _peaks(bench, program, name, few, large)


def carrier_tables(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure a very large batch into a Delta table, and what it costs the driver."""
    most, few = (10_000_000, 10_000) if bench.scale == FULL else (20_000, 2_000)
    table, redis = (
        median(_driven(bench, "local[2]", most, ["executors"], program)["took"]["executors"]["total"])
        for program in ("tables", "puts")
    )
    text = f"{most} distinct keys a batch by executors, from commit to commit: into a Delta table against Redis"
    yield Row("carrier.tables", text, most / table, most / redis, "keys/s", 3.0)
    yield from _peaks(bench, "tables", "carrier.tables.memory", few, most)


def _peaks(bench: Bench, program: str, name: str, few: int, large: int) -> Iterator[Row]:
    """Compare the driver's memory for a large batch with that for a small one, executors in processes apart."""
    peaks = {keys: _driven(bench, _CLUSTER, keys, ["executors"], program)["peaks"] for keys in (few, large)}
    for process in ("python", "jvm"):
        text = f"driver of 2 GB, {program}, peak of the resident set ({process}): {large} keys a batch against {few}"
        yield Row(f"{name}.{process}", text, peaks[large][process], peaks[few][process], "MB", 1.5, "at most")


def _by_executors(bench: Bench, many: int) -> Iterator[Row]:
    """Measure two executors of a processor each against one.

    Puts are held up by the server, which has one core. A function of the user's that costs ten times as much as the
    server's part shows what executors add where the server is not the limit.
    """
    for kind, program, name, tuples, text, target in (
        ("local-cluster", "costly", "carrier.scale", many // 4, _COSTLY, 1.8),
        ("standalone", "costly", "carrier.scale.standalone", many // 4, _COSTLY, 1.8),
        ("local-cluster", "puts", "carrier.scale.puts", many, "puts of {} distinct keys", None),
    ):
        one, two = (median(_commits(bench, kind, number, tuples, program)) for number in (1, 2))
        text = (
            f"{text.format(tuples)}, opaque Redis, the commit: two executors of a processor each against one ({kind})"
        )
        yield Row(name, text, tuples / two, tuples / one, "keys/s", target)


def _commits(bench: Bench, kind: str, executors: int, tuples: int, program: str) -> list[float]:
    """Return the seconds of each commit with so many executors, processes of their own."""
    if kind == "standalone":
        with StandaloneCluster(bench.fresh(), workers=executors, memory=2048) as cluster:
            took = _driven(bench, cluster.url, tuples, _TURNS, program)["took"]
    else:
        took = _driven(bench, f"local-cluster[{executors},1,2048]", tuples, _TURNS, program)["took"]
    commits: list[float] = took["executors"]["commit"]
    return commits


def _driven(bench: Bench, master: str, keys: int, writers: list[str], program: str = "puts") -> Any:
    """Run a driver of its own, which checks what is stored, and return what it prints."""
    folder = bench.fresh()
    bench.server.client.flushall()
    command = [
        sys.executable,
        "-m",
        "benchmarks.carrier_driver",
        str(folder),
        bench.server.url,
        master,
        str(keys),
        program,
    ]
    done = subprocess.run([*command, *writers], capture_output=True, text=True, timeout=_LIMIT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr[-4000:]}")
    bench.server.client.flushall()
    bench.drop(folder)
    return json.loads(done.stdout.strip().splitlines()[-1])
