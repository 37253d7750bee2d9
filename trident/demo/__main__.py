"""The demo counts the words of a novel batch by batch, and kills the driver in the middle of a batch.

It then shows that no word was lost or counted twice.

    python -m trident.demo                       # counts in memory, durable in the checkpoint
    REDIS=redis://localhost python -m trident.demo   # counts in Redis
    SOURCE=kafka python -m trident.demo          # the novel's lines are messages in a Kafka broker that it starts
    SERVE=1 python -m trident.demo               # with a page for the browser, which stays until Ctrl-C

The driver is a separate process (`trident.demo.driver`), so that it can be killed. This process starts the driver,
prints the driver's reports, starts a driver again after the kill, and compares the driver's counts with counts by plain
Python (`trident.demo.words`) of the same files.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from trident.base.java import MissingJavaError, ensure_java
from trident.demo import CORPUS
from trident.demo.ports import free_port
from trident.demo.sources import NoSourceError, Source, opened
from trident.demo.words import count_independently

KILLED_IN = 8
"""The txid of the batch in which the driver dies: the state holds the batch, but the log has no COMMITTED for it."""

CRASH_AT = f"commit.state.after:{KILLED_IN}"


class DriverFailedError(RuntimeError):
    """The driver process did not end as the demo expects, or answered no query."""


class Driver:
    """A process that runs `trident.demo.driver`; `crash_at` names the crash point at which it is killed.

    With a `port` it serves its page on that port, also after the counting, until `finish`.
    """

    def __init__(
        self, name: str, folder: Path, crash_at: str = "", source: Source | None = None, port: int = 0
    ) -> None:
        self._log = folder / "driver.log"
        environment = {
            **os.environ,
            "TRIDENT_CRASH_AT": crash_at,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
            **(source.environment if source else {}),
        }
        servers = source.servers if source else ""
        command = [sys.executable, "-m", "trident.demo.driver", name, str(folder), servers, str(port)]
        pipe = subprocess.PIPE
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=log, env=environment, text=True)

    def reports(self) -> Iterator[dict[str, Any]]:
        """Yield the reports of the process until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)
        self._process.wait()

    def finish(self) -> None:
        """Let a driver that serves its page end."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def check_killed(self) -> None:
        """Raise DriverFailedError unless the process was killed by SIGKILL."""
        if self._process.returncode != -signal.SIGKILL:
            raise DriverFailedError(f"expected a kill in batch {KILLED_IN}, but the driver {self._ending()}")

    def check_finished(self) -> None:
        """Raise DriverFailedError unless the process ended with exit code 0."""
        if self._process.returncode != 0:
            raise DriverFailedError(self._ending())

    def _ending(self) -> str:
        code = self._process.returncode
        how = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
        return f"{how}; the end of its log:\n{last}"

    def end(self) -> None:
        """Kill the process if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def show(report: Mapping[str, Any]) -> None:
    """Print a report of the driver as one line."""
    match report["kind"]:
        case "spark":
            print(f"Spark {report['version']} is up", flush=True)
        case "batch":
            how = "from the log, as it was frozen" if report["txid"] == KILLED_IN else f"{report['ms']:7,.0f} ms"
            print(f"batch {report['txid']:3} committed, {report['words']:6,} words, {how}", flush=True)
        case "answer":
            print(
                f"    asked while it runs: occurrences({report['asked']!r}) = {report['sum']:,} "
                f"as of batch {report['asOfTxid']}, {report['ms']:.1f} ms",
                flush=True,
            )


def wrong_counts(counts: Mapping[str, int], expected: Mapping[str, int]) -> tuple[int, int]:
    """Return how many occurrences are missing in `counts` and how many are too many, both summed over all words.

    >>> wrong_counts({"whale": 3, "sea": 1}, {"whale": 2, "sea": 1, "ahab": 5})
    (5, 1)
    """
    expected, counts = Counter(expected), Counter(counts)
    return (expected - counts).total(), (counts - expected).total()


def compare(counts: Mapping[str, int], expected: Counter[str]) -> bool:
    """Print how many counts are wrong, and return whether all are right."""
    lost, twice = wrong_counts(counts, expected)
    print(f"{expected.total():,} occurrences of {len(expected):,} words, compared with a count by plain Python:")
    print(f"{lost:,} lost, {twice:,} counted twice", flush=True)
    return lost == twice == 0


def play(folder: Path) -> bool:
    """Run the whole demo with its files in `folder`, and return whether every count is right."""
    java = ensure_java()
    with opened(os.environ.get("SOURCE") or "files", folder) as source:
        print(f"{source.text}; {java}")
        return _count(folder, source)


def _count(folder: Path, source: Source) -> bool:
    redis = os.environ.get("REDIS") or None
    print(f"counts are in {'Redis' if redis else 'memory, durable in the checkpoint'}", flush=True)
    name = f"moby-dick-{secrets.token_hex(4)}"

    # The same port for both drivers, so that a browser finds the second driver at the address of the first.
    port = free_port() if os.environ.get("SERVE") else 0
    if port:
        print(f"watch it at {_page(port)}", flush=True)
    answers, right = 0, False
    for crash_at in (CRASH_AT, ""):
        driver = Driver(name, folder, crash_at, source, port)
        try:
            for report in driver.reports():
                answers += report["kind"] == "answer"
                show(report)
                if report["kind"] == "counted":
                    right = _compare_with_plain_python(folder)
                    _wait_for_interrupt(port)
                    driver.finish()
        finally:
            driver.end()
        if crash_at:
            driver.check_killed()
            print(f"batch {KILLED_IN:3} SIGKILL: the driver died between writing the counts and logging the commit")
            print("starting the driver again on the same checkpoint", flush=True)
        else:
            driver.check_finished()

    if not answers:
        raise DriverFailedError("the driver answered no query while it ran")
    if port:
        return right
    right = _compare_with_plain_python(folder)
    print("make demo SERVE=1 ends with the address of its page, and serves it until Ctrl-C", flush=True)
    return right


def _compare_with_plain_python(folder: Path) -> bool:
    return compare(json.loads((folder / "counts.json").read_text()), count_independently(CORPUS))


def _page(port: int) -> str:
    return f"http://127.0.0.1:{port}/"


def _wait_for_interrupt(port: int) -> None:
    print(f"its page: {_page(port)} until Ctrl-C", flush=True)
    with suppress(KeyboardInterrupt):
        threading.Event().wait()


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="trident-demo-") as folder:
        try:
            return 0 if play(Path(folder)) else 1
        except (DriverFailedError, MissingJavaError, NoSourceError) as failure:
            print(f"the demo failed: {failure}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
