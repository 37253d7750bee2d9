"""Every I/O step of a batch's life fails, one after the other, until a run ends in which none did.

The loop is SQLite's: fail the 1st, the 2nd, ... the Nth step until a run makes no Nth one; it ends by itself, and no
step can be forgotten. Steps are told apart by name (`sums: OPEN MERGE COMMIT`, `log: commit of UPDATE groups`), because
two states are written side by side. Each fails before it is done, half done (a pipeline after each of its commands, a
commit in the middle of a page of the WAL) and done but not answered; as an exception, as SIGKILL of the driver, and on
the wire as a lost connection. After each fault the topology is started until it is through, and once more; then its
states must hold the exact multiset of records, and a sum of counts and checksums.

    python -m tests.faults.exhaustive                 a twentieth, the one that the seed chooses
    python -m tests.faults.exhaustive --of 1          everything
    python -m tests.faults.exhaustive --only 'opaque, two, redis' --verbose
"""

import argparse
import contextlib
import json
import logging
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, get_args
from unittest import mock

from tests.faults import disk, request_steps, smallest_topology
from tests.faults.driver_forks import Zygote
from tests.faults.smallest_topology import Small, expected
from tests.faults.steps import Fault, How, Injected, Mode, Steps
from tests.support.request_proxy import RequestProxy
from tests.support.server import RedisServer
from trident.base.errors import TridentError

KINDS = ("transactional", "opaque")
HOMES = ("memory", "redis")
BEGINS = ("new", "left")
"""From nothing, or from what a driver left that was killed in the middle of a commit: recovery has steps as well."""
_TRIES = 3
"""Runs in which a step must be met, before it counts as one that is not always there."""
_STARTS = 4
"""Starts after which a driver must be through."""


@dataclass(frozen=True)
class Column:
    """What stays the same while step after step fails: the topology, where it begins, and what the driver meets."""

    kind: str
    shape: str
    home: str
    begin: str
    site: str
    how: How

    def __str__(self) -> str:
        return f"{self.kind}, {self.shape}, {self.home}, {self.begin}, {self.site}, {self.how}"


def columns() -> list[Column]:
    """Every combination that can be: a file has no connection to lose, and a state in memory no server."""
    ways: dict[str, tuple[How, ...]] = {"disk": ("exception", "kill"), "server": ("exception", "kill", "reset")}
    return [
        Column(kind, shape, home, begin, site, how)
        for home in HOMES
        for site in (("disk", "server") if home == "redis" else ("disk",))
        for how in ways[site]
        for shape in smallest_topology.STATES
        for kind in KINDS
        for begin in BEGINS
    ]


@dataclass
class Tally:
    """What was done in a column."""

    steps: int = 0
    cases: int = 0
    run: int = 0
    unmet: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            self.steps + other.steps,
            self.cases + other.cases,
            self.run + other.run,
            self.unmet + other.unmet,
            self.wrong + other.wrong,
            self.seconds + other.seconds,
        )


class Bench:
    """A server, a proxy before it, a process that forks drivers, and a folder; empty for every run."""

    def __enter__(self) -> Self:
        self._stack = contextlib.ExitStack()
        shared = "/dev/shm"  # an fsync costs nothing there, and a killed process loses nothing anywhere
        place = shared if os.path.isdir(shared) and os.access(shared, os.W_OK) else None
        self.folder = Path(self._stack.enter_context(tempfile.TemporaryDirectory(prefix="trident-faults-", dir=place)))
        self._zygote = self._stack.enter_context(Zygote())
        self._server = self._stack.enter_context(RedisServer(self.folder / "redis", "none"))
        self._proxy = self._stack.enter_context(RequestProxy(self._server.port, lambda commands: None))
        self._left: dict[tuple[str, str, str], dict[bytes, bytes]] = {}
        self._died: list[str] = []
        """Threads that ended with an exception nobody caught."""
        self._stack.enter_context(mock.patch.object(threading, "excepthook", self._thread_died))
        return self

    def _thread_died(self, what: threading.ExceptHookArgs) -> None:
        self._died.append(f"{what.thread and what.thread.name} died: {what.exc_value!r}")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def run(self, column: Column, fault: Fault | None) -> Steps:
        """One run with one fault (or none), and all the starts that it takes. Raises AssertionError if it is wrong."""
        given = Small(column.kind, column.shape, column.home, str(self.folder / "run"), self._url(column))
        self._prepare(column, given)
        steps = Steps(fault)
        try:
            if column.how == "kill":
                self._killed(column, given, steps)
            else:
                self._troubled(column, given, steps)
        finally:
            self._proxy.ask = lambda commands: None
        self._check(given, smallest_topology.run(given), "after another start")
        died, self._died = self._died, []
        assert not died, died
        return steps

    def _url(self, column: Column) -> str:
        port = self._proxy.port if column.site == "server" and column.how != "exception" else self._server.port
        return f"redis://127.0.0.1:{port}/0"

    def _killed(self, column: Column, given: Small, steps: Steps) -> None:
        """The driver is a process of its own, which dies at the fault."""
        child = [0]
        if column.site == "server":
            self._proxy.ask = request_steps.asking(steps, lambda: os.kill(child[0], signal.SIGKILL))
        child[0] = self._zygote.begin(given, steps.fault if column.site == "disk" else None)
        end = self._zygote.end()
        if column.site == "disk":
            steps.fired = end.signal == signal.SIGKILL
            steps.met.update(end.met)
            steps.parts |= end.parts
        if end.signal is None:
            assert end.error is None, end.trace
            self._check(given, end.result, "in the run that nobody killed")
        assert (end.signal == signal.SIGKILL) == steps.fired, f"it ended by signal {end.signal}"

    def _troubled(self, column: Column, given: Small, steps: Steps) -> None:
        """The driver lives on, or stops with an error that tells why and is started again."""
        with contextlib.ExitStack() as stack:
            if column.site == "disk":
                stack.enter_context(disk.watched(steps))
            elif column.how == "exception":
                stack.enter_context(request_steps.watched(steps))
            else:
                self._proxy.ask = request_steps.asking(steps, lambda: None)
            for _ in range(_STARTS):
                try:
                    self._check(given, smallest_topology.run(given), "in the run that met the fault")
                    return
                except (TridentError, Injected) as error:
                    assert steps.fired, f"an error without a fault: {error!r}"
        raise AssertionError(f"it is not through after {_STARTS} starts")

    def _check(self, given: Small, found: Any, when: str) -> None:
        wanted = expected(given.shape)
        assert found == wanted, f"{when}: {_difference(found, wanted)}"

    # --- from where a run begins -----------------------------------------------------------------------------

    def _prepare(self, column: Column, given: Small) -> None:
        self._server.client.flushall()
        shutil.rmtree(given.checkpoint, ignore_errors=True)
        if column.begin == "new":
            return
        key = (column.kind, column.shape, column.home)
        kept = self.folder / "left" / "-".join(key)
        if key not in self._left:
            self._zygote.begin(replace(given, checkpoint=str(kept), url=self._server.url), crash=_LEFT_AT)
            end = self._zygote.end()
            assert end.signal == signal.SIGKILL, end
            client = self._server.client
            self._left[key] = {name: client.dump(name) or b"" for name in client.scan_iter()}
            client.flushall()
        shutil.copytree(kept, given.checkpoint)
        for name, content in self._left[key].items():
            self._server.client.restore(name, 0, content)


_LEFT_AT = "commit.state.after:3"
"""Batch 3 of one state, or the first of two that have batch 2, is written and not logged; later ones are planned."""


def _difference(found: Any, wanted: dict[str, Any]) -> str:
    if not isinstance(found, dict):
        return f"{found!r}"
    different = {
        f"{state}[{key}]": (found.get(state, {}).get(key), wanted[state].get(key))
        for state in wanted
        for key in {*wanted[state], *found.get(state, {})}
        if found.get(state, {}).get(key) != wanted[state].get(key)
    }
    return f"(found, wanted) {different}"


# --- the loop ----------------------------------------------------------------------------------------------------


@dataclass
class Loop:
    """Fails step after step of one column; of all its cases every `of`-th, from `seed` on."""

    bench: Bench
    column: Column
    of: int
    seed: int
    verbose: bool = False
    tally: Tally = field(default_factory=Tally)

    def go(self) -> Tally:
        began = time.monotonic()
        clean = [self.bench.run(self.column, None) for _ in range(2)]
        met: Counter[str] = Counter()
        parts: dict[str, int] = {}
        for steps in clean:
            met |= steps.met
            parts |= {name: max(count, parts.get(name, 0)) for name, count in steps.parts.items()}
        assert met, f"{self.column}: no step was met"
        self.tally.steps = sum(met.values())
        for name in sorted(met):
            for mode, part in _modes(parts[name], self.column.how):
                self._fail_all(name, met[name], mode, part)
        self.tally.seconds = time.monotonic() - began
        return self.tally

    def _fail_all(self, name: str, known: int, mode: Mode, part: int) -> None:
        """The first, the second, ... step of this name, until there is none."""
        occurrence = 1
        while True:
            last = occurrence > known
            fault = Fault(name, occurrence, mode, self.column.how, part)
            if self._chosen() and not self._fail(fault, last) and last:
                return
            if last and self.of > 1:
                return
            occurrence += 1

    def _chosen(self) -> bool:
        self.tally.cases += 1
        return (self.tally.cases + self.seed) % self.of == 0

    def _fail(self, fault: Fault, last: bool) -> bool:
        """Whether the fault struck. A step that the clean runs made is tried again, because threads race."""
        for _ in range(1 if last else _TRIES):
            self.tally.run += 1
            if self.verbose:
                print(f"  {fault}", file=sys.stderr, flush=True)
            try:
                if self.bench.run(self.column, fault).fired:
                    return True
            except Exception as error:
                self.tally.wrong.append(f"{self.column}: {fault}: {type(error).__name__}: {error}")
                return True
        if not last:
            self.tally.unmet.append(f"{self.column}: {fault}")
        return False


def _modes(parts: int, how: How) -> Iterator[tuple[Mode, int]]:
    """How a step can fail. One that changes nothing can only be refused; a driver that is killed there is one that is
    killed between two that do."""
    if parts == 0:
        if how != "kill":
            yield "before", 0
        return
    yield "before", 0
    for part in range(1, parts):
        yield "half", part
    yield "applied", 0


# --- the command -------------------------------------------------------------------------------------------------


def main() -> int:
    parser = argparse.ArgumentParser(description="Fails every I/O step of a batch's life.")
    parser.add_argument("--of", type=int, default=20, help="run one case of so many (1: all)")
    parser.add_argument("--seed", type=int, default=int(time.time()) // 86400, help="which ones (today's number)")
    parser.add_argument("--only", default="", help="columns that begin so")
    parser.add_argument("--share", default="0/1", help="every n-th column from the k-th on: k/n")
    parser.add_argument("--json", action="store_true", help="tell the result as one line of JSON")
    parser.add_argument("--verbose", action="store_true", help="name each case before it runs")
    given = parser.parse_args()
    logging.disable()
    warnings.simplefilter("ignore", RuntimeWarning)  # that the server has no log of its own is meant so
    share, shares = map(int, given.share.split("/"))
    total = Tally()
    with Bench() as bench:
        for number, column in enumerate(columns()):
            if number % shares != share or not str(column).startswith(given.only):
                continue
            tally = Loop(bench, column, given.of, given.seed + 7 * number, given.verbose).go()
            total += tally
            if not given.json:
                print(f"{column}: {tally.run} of {tally.cases} cases over {tally.steps} steps, {tally.seconds:.1f} s")
                for line in tally.wrong:
                    print(f"  WRONG {line}")
    if given.json:
        print(json.dumps({**total.__dict__, "seed": given.seed, "of": given.of}))
    else:
        print(told(total, given.of, given.seed))
    return 1 if total.wrong else 0


def told(total: Tally, of: int, seed: int) -> str:
    """What was done, in words."""
    text = f"{total.run} runs with a fault, of {total.cases} cases over {total.steps} steps"
    slice_ = "all" if of == 1 else f"every {of}th case, from seed {seed}"
    unmet = f"{len(total.unmet)} steps were not met again in {_TRIES} runs"
    return f"{text} ({slice_}); {unmet}; {len(total.wrong)} wrong; {total.seconds:.0f} s"


if __name__ == "__main__":
    assert set(get_args(How)) == {"exception", "kill", "reset"}
    sys.exit(main())
