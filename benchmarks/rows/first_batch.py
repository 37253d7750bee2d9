"""The first batch of a run on Spark: from ``start`` to the first commit, against the first ``collect`` of its plan."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.row import Row
from benchmarks.timing import median
from benchmarks.workload import Workload

ROUNDS = 5


def first_batch(bench: Bench, load: Workload) -> Iterator[Row]:
    """Measure each in processes of its own, in turn: only a session's first plan meets cold workers and a cold JVM."""
    for way in ("native", "python"):
        took: dict[str, list[float]] = {"collect": [], "start": []}
        for _ in range(ROUNDS if bench.scale.warm else 1):
            for what, seconds in took.items():
                seconds.append(_measured(what, way))
        split = "expr" if way == "native" else "a Python function"
        text = f"first batch, 100 rows split by {split}: start to first commit; against a fresh session's collect()"
        yield Row(f"first.{way}", text, median(took["start"]), median(took["collect"]), "s", 1.5, "at most")


def _measured(what: str, way: str) -> float:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.first_batch", what, way, folder]
        ran = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    return float(json.loads(ran.stdout.splitlines()[-1])["seconds"])
