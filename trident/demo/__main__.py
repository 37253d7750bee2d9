"""The main job before your eyes: a novel is counted batch by batch, the driver is killed in the middle of one, and
nothing is lost or counted twice.

    python -m trident.demo                       # counts in memory, durable in the checkpoint
    REDIS=redis://localhost python -m trident.demo   # counts in Redis

The driver is a process of its own (`driver`), so that it can be killed; this one starts it, shows what it tells, starts
it again, and compares its counts with its own count of the same files.
"""

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trident.demo.java import MissingJavaError, ensure_java
from trident.demo.words import CORPUS, count_independently

KILLED_IN = 8
"""The batch in the middle of which the driver dies: its counts are in the state, the log does not know it yet."""

CRASH_AT = f"commit.state.after:{KILLED_IN}"


class DriverFailedError(RuntimeError):
    """The driver process ended otherwise than it should."""


class Driver:
    """One life of the driver process."""

    def __init__(self, name: str, folder: Path, crash_at: str = "") -> None:
        self._log = folder / "driver.log"
        environment = {
            **os.environ,
            "TRIDENT_CRASH_AT": crash_at,
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1"),
        }
        command = [sys.executable, "-m", "trident.demo.driver", name, str(folder)]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment, text=True)

    def tells(self) -> Iterator[dict[str, Any]]:
        """What it says, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            yield json.loads(line)
        self._process.wait()

    def must_have_been_killed(self) -> None:
        if self._process.returncode != -signal.SIGKILL:
            raise DriverFailedError(f"the driver was to be killed in batch {KILLED_IN}, but {self._ending()}")

    def must_have_finished(self) -> None:
        if self._process.returncode != 0:
            raise DriverFailedError(self._ending())

    def _ending(self) -> str:
        code = self._process.returncode
        how = f"died of signal {-code}" if code < 0 else f"ended with exit code {code}"
        last = "\n".join(self._log.read_text(errors="replace").splitlines()[-20:])
        return f"it {how}; the end of its log:\n{last}"

    def end(self) -> None:
        """Leave no process behind."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def show(news: Mapping[str, Any]) -> None:
    """One plain line about what the driver told."""
    match news["kind"]:
        case "spark":
            print(f"Spark {news['version']} is up", flush=True)
        case "batch":
            how = "from the log, as it was frozen" if news["txid"] == KILLED_IN else f"{news['ms']:7,.0f} ms"
            print(f"batch {news['txid']:3} committed, {news['words']:6,} words, {how}", flush=True)
        case "answer":
            print(
                f"    asked while it runs: occurrences({news['asked']!r}) = {news['sum']:,} "
                f"as of batch {news['asOfTxid']}, {news['ms']:.1f} ms",
                flush=True,
            )


def verdict(got: Mapping[str, int], expected: Mapping[str, int]) -> tuple[int, int]:
    """How many occurrences were lost, and how many counted more than once, over all words.

    >>> verdict({"whale": 3, "sea": 1}, {"whale": 2, "sea": 1, "ahab": 5})
    (5, 1)
    """
    expected, got = Counter(expected), Counter(got)
    return (expected - got).total(), (got - expected).total()


def compare(got: Mapping[str, int], expected: Counter[str]) -> bool:
    """Print the verdict; whether every count is right."""
    lost, twice = verdict(got, expected)
    print(f"{expected.total():,} occurrences of {len(expected):,} words, compared with a count by plain Python:")
    print(f"{lost:,} lost, {twice:,} counted twice", flush=True)
    return lost == twice == 0


def play(folder: Path) -> bool:
    """The whole demo, in `folder`. Whether every count is right and a query was answered on the way."""
    redis = os.environ.get("REDIS") or None
    files = sorted(CORPUS.glob("*.txt"))
    size = sum(path.stat().st_size for path in files)
    print(f"Moby-Dick: {len(files)} files, {size / 1e6:.1f} MB of English; {ensure_java()}")
    print(f"counts live in {'Redis' if redis else 'memory, durable in the checkpoint'}", flush=True)
    name = f"moby-dick-{secrets.token_hex(4)}"

    answers = 0
    for crash_at in (CRASH_AT, ""):
        driver = Driver(name, folder, crash_at)
        try:
            for news in driver.tells():
                answers += news["kind"] == "answer"
                show(news)
        finally:
            driver.end()
        if crash_at:
            driver.must_have_been_killed()
            print(f"batch {KILLED_IN:3} SIGKILL: the driver died between writing the counts and logging the commit")
            print("starting it again on the same checkpoint", flush=True)
        else:
            driver.must_have_finished()

    if not answers:
        raise DriverFailedError("no query was answered while it ran")
    return compare(json.loads((folder / "counts.json").read_text()), count_independently(CORPUS))


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="trident-demo-") as folder:
        try:
            return 0 if play(Path(folder)) else 1
        except (DriverFailedError, MissingJavaError) as failure:
            print(f"the demo failed: {failure}", file=sys.stderr)
            return 2


if __name__ == "__main__":
    sys.exit(main())
