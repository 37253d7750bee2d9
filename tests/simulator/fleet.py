"""Many schedules, over all cores: a process each, that takes the next few seeds when it is done with the last."""

import gc
import logging
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from multiprocessing import get_context
from typing import Any

from tests.simulator.families import EVERY, world_of
from tests.simulator.patches import machine
from tests.simulator.programs import forget_many

_AT_ONCE = 100
"""Seeds that a process takes."""
_MOST_WRONG = 10
_MOST_SECONDS = 300.0
"""What a schedule may take on the clock of the wall; one needs hundredths of a second."""


@dataclass
class Tally:
    """What many schedules came to."""

    schedules: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    stops: Counter[str] = field(default_factory=Counter)
    sizes: dict[str, Counter[int]] = field(default_factory=dict)
    """How many schedules had so many faults, batches, drivers, reads."""
    reads: int = 0
    refused: int = 0
    wrong: dict[int, str] = field(default_factory=dict)
    """By seed."""

    def add(self, other: "Tally") -> None:
        self.schedules += other.schedules
        self.faults += other.faults
        self.stops += other.stops
        for name, sizes in other.sizes.items():
            self.sizes[name] = self.sizes.get(name, Counter()) + sizes
        self.reads += other.reads
        self.refused += other.refused
        self.wrong |= other.wrong

    def lines(self) -> Iterator[str]:
        """For whoever looks."""
        yield f"schedules  {self.schedules}"
        yield f"reads      {self.reads} checked, {self.refused} refused by a typed error while faults went on"
        for name, sizes in self.sizes.items():
            yield f"{name:10} {_spread(sizes)} a schedule"
        yield f"faults     {_listed(self.faults)}"
        yield f"ends       {_listed(self.stops)}"


def _listed(counts: Counter[str]) -> str:
    return f"{sum(counts.values())}: " + ", ".join(f"{name} {number}" for name, number in counts.most_common())


def _spread(sizes: Counter[int]) -> str:
    ordered, total = sorted(sizes.elements()), sum(sizes.values())
    tenth, middle, ninetieth = (ordered[int(total * share)] for share in (0.1, 0.5, 0.9))
    return f"{sum(ordered) / total:.1f} (10 % up to {tenth}, half up to {middle}, 90 % up to {ninetieth})"


@contextmanager
def thrift() -> Iterator[None]:
    """No log lines, and no collector that walks over Spark's and Arrow's modules again and again: `some` has what is
    new collected."""
    logging.disable(logging.CRITICAL)
    gc.disable()
    try:
        yield
    finally:
        gc.collect(1)
        gc.enable()
        logging.disable(logging.NOTSET)


class Hangs(BaseException):
    """A schedule stands still, such as in a lock that its own thread holds."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise Hangs in a schedule that takes longer, and again, if that is caught."""

    def interrupt(*_: object) -> None:
        raise Hangs(f"no end after {seconds:g} s")

    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)


def some(seeds: range, every: int = EVERY, seconds: float = _MOST_SECONDS, flow: str = "") -> Tally:
    """These schedules, in this process, each within so many seconds."""
    tally = Tally()
    with thrift(), machine():
        for seed in seeds:
            try:
                with _limited(seconds):
                    result = world_of(seed, every, flow=flow).run()
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                tally.wrong[seed] = f"{type(error).__name__}: {error}"
                tally.schedules += 1
                continue
            tally.schedules += 1
            tally.faults += result.faults
            tally.stops[result.stop] += 1
            tally.reads += result.reads
            tally.refused += result.refused
            sizes = {"faults": sum(result.faults.values()), "batches": result.batches, "drivers": result.drivers}
            for name, size in sizes.items():
                tally.sizes.setdefault(name, Counter())[size] += 1
            if forget_many():
                gc.collect()
            gc.collect(0)  # the next one then works where the caches are warm
    return tally


def _settle(turn: Any) -> None:
    """A core for this process, and modules that no collector looks at."""
    gc.collect()
    gc.freeze()
    with suppress(AttributeError, OSError):
        cores = sorted(os.sched_getaffinity(0))
        with turn.get_lock():
            turn.value += 1
            mine = cores[turn.value % len(cores)]
        os.sched_setaffinity(0, {mine})


def everything(
    first: int,
    schedules: int,
    minutes: float | None = None,
    processes: int | None = None,
    every: int = EVERY,
    flow: str = "",
) -> Tally:
    """So many schedules from seed `first` on, or as many as there is time for. Stops early where much is wrong."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    number = processes or cores
    until = time.monotonic() + (1e9 if minutes is None else 60 * minutes)
    context = get_context("fork" if sys.platform == "linux" else "spawn")  # what is imported is there already
    chunks = (range(at, min(at + _AT_ONCE, first + schedules)) for at in count(first, _AT_ONCE))
    tally = Tally()
    with ProcessPoolExecutor(number, context, _settle, (context.Value("i", 0),)) as pool:
        under_way = {pool.submit(partial(some, every=every, flow=flow), next(chunks)) for _ in range(number + 1)}
        try:
            while under_way:
                done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for each in done:
                    tally.add(each.result())
                    seeds = next(chunks)
                    if seeds and time.monotonic() < until and len(tally.wrong) < _MOST_WRONG:
                        under_way.add(pool.submit(partial(some, every=every, flow=flow), seeds))
        except KeyboardInterrupt:  # what was run until then is told
            pool.shutdown(wait=False, cancel_futures=True)
    return tally
