"""A driver whose executors put its batches into states and ask one, and what dies between a put and its report.

Each batch of each state draws what happens to its puts, and whether before or after the server has done them: the task
fails, or puts twice; its Python worker dies, its executor, the worker process of Spark above it, the server, or the
driver; or the driver stands still while another one takes over.

Usage: python -m tests.cluster.puts FOLDER URL MASTER KINDS ROUNDS SEED. The URL is that of a Redis server, or a folder
for Delta tables. Prints the txid of the last commit now and
then, and what the states hold as JSON in its last line. `tests.cluster.put_rounds` starts it, and again where it was
killed.
"""

import faulthandler
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.drive import ONE_CORE_EACH, UNDER_FIRE, session
from tests.cluster.losses import executor
from tests.support.open_batches import Joined, first_time, opening_as
from trident import Count, MapGet, Sum, TridentTopology
from trident.base.errors import FencedError, StateLostError, StateUnavailableError
from trident.spouts import FixedBatchSpout
from trident.state import DeltaMapState, RedisMapState
from trident_state.delta import shared_table
from trident_state.delta.store import DeltaStore
from trident_state.redis import RedisStore
from trident_state.redis import open_batch as redis_batch
from trident_state.store_messages import Put

KINDS = {"fails": 3, "twice": 2, "worker": 4, "executor": 4, "server": 4, "driver": 1, "stands still": 1, "daemon": 1}
"""What may happen, and how often. The daemon is a worker process of a standalone cluster."""
FENCED = 3
"""The exit code of a driver that was taken over."""
STOPPED = 4
"""That of one that found its server away, or without its states."""
Found = dict[str, dict[str, Any]]

# --- what is counted ----------------------------------------------------------------------------------------------


def batch_of(seed: int, number: int) -> list[str]:
    """Return the words of a batch: some of all batches, and some of its own, which tell it from the others."""
    dice = random.Random(f"{seed}/words/{number}")
    return [f"word{dice.randrange(300)}" for _ in range(500)] + [f"only{number}.{n % 40}" for n in range(80)]


def expected(seed: int, rounds: int) -> Found:
    """Return what the states hold in the end; `asked`: the sums of what each batch found before itself."""
    counts: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for number in range(rounds):
        words = batch_of(seed, number)
        for word in words:
            asked[word[-1]] += counts[word]
        counts.update(words)
    joined = {word: word[-1] * n for word, n in counts.items()}
    return {"counts": dict(counts), "joined": joined, "asked": dict(asked)}


def topology(url: str, batches: list[list[str]]) -> TridentTopology:
    """counts: by the server, or by deltas. joined: by Python. asked: by the last letter, what `counts` held before
    each batch."""
    made = TridentTopology()
    words = made.newStream("words", FixedBatchSpout("word string", batches))
    in_redis = url.startswith("redis")
    state: Any = (
        RedisMapState.opaque(url, writers="executors", groups=2)
        if in_redis
        else DeltaMapState.opaque(url, writers="executors")
    )
    counts = words.groupBy("word").persistentAggregate(state, Count(), "count", name="counts")
    words.groupBy("word").persistentAggregate(state, "word", Joined(), "joined", name="joined")
    asked = words.stateQuery(counts, "word", MapGet(), "before long").each(
        ["word", "before"], ending, "end string, n long"
    )
    asked.groupBy("end").persistentAggregate(state, "n", Sum(), "total", name="asked")
    return made


def ending(word: str, before: int | None) -> tuple[str, int]:
    return word[-1], before or 0


# --- what happens -------------------------------------------------------------------------------------------------


def troubles_of(seed: int, where: str, txid: int, kinds: list[str]) -> list[tuple[str, str]]:
    """Return what happens to the first puts of a batch, one after the other: what, and before or after which."""
    dice = random.Random(f"{seed}/{where}/{txid}")
    drawn = dice.choices(kinds, [KINDS[kind] for kind in kinds], k=dice.choice((0, 0, 1, 1, 2)))
    return [(kind, dice.choice(("before", "after", "after"))) for kind in drawn]


class Troubled:
    """A batch to whose first puts something happens. `marks` is where those who die are found, and marked."""

    where: str
    txid: int
    marks: Path
    seed: int
    kinds: tuple[str, ...]

    def put(self, parts: Any) -> Put:
        parts = list(parts)
        kind, when = self._next()
        if kind and when == "before":
            self._strike(kind)
        done: Put = super().put(parts)  # type: ignore[misc]
        if kind == "twice":
            again: Put = super().put(parts)  # type: ignore[misc]
            return again
        if kind and when == "after":
            self._strike(kind)
        return done

    def _next(self) -> tuple[str, str]:
        for number, (kind, when) in enumerate(troubles_of(self.seed, self.where, self.txid, list(self.kinds))):
            mark = f"struck-{self.txid}-{self.where}-{number}-{when}-{kind}".replace("'", "")
            if first_time(self.marks / mark):
                return kind, when
        return "", ""

    def _strike(self, kind: str) -> None:
        if kind == "fails":
            raise RuntimeError("this task fails, on purpose")
        if kind == "worker":
            os.kill(os.getpid(), signal.SIGKILL)
        elif kind == "executor":
            os.kill(executor(), signal.SIGKILL)
        elif kind == "daemon":
            os.kill(_parent(executor()), signal.SIGKILL)
        elif kind in ("driver", "server", "stands still"):
            name = "server" if kind == "server" else "driver"
            number, line = json.loads((self.marks / f"{name}.pid").read_text())
            with suppress(OSError):  # it is dead already
                if _line(number) == line:
                    os.kill(number, signal.SIGSTOP if kind == "stands still" else signal.SIGKILL)


@dataclass(frozen=True)
class TroubledInRedis(Troubled, redis_batch.OpenBatch):
    """Such a batch of a state in Redis."""

    marks: Path = Path()
    seed: int = 0
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True)
class TroubledInTable(Troubled, shared_table.OpenBatch):
    """Such a batch of a state in a Delta table."""

    marks: Path = Path()
    seed: int = 0
    kinds: tuple[str, ...] = ()


def _parent(pid: int) -> int:
    status = (Path("/proc") / str(pid) / "status").read_text()
    return int(status.partition("PPid:")[2].split()[0])


def _line(pid: int) -> str:
    return (Path("/proc") / str(pid) / "cmdline").read_bytes().decode(errors="replace")


def note_pid(folder: Path, name: str, pid: int) -> None:
    """Tell those who kill where this process is, and how they know that it still is this one."""
    (folder / f"{name}.new").write_text(json.dumps([pid, _line(pid)]))
    (folder / f"{name}.new").rename(folder / f"{name}.pid")


# --- the program --------------------------------------------------------------------------------------------------


def main(folder: Path, url: str, master: str, kinds: list[str], rounds: int, seed: int) -> int:
    faulthandler.register(signal.SIGUSR1)  # where it hangs, if it does
    note_pid(folder, "driver", os.getpid())
    confs = UNDER_FIRE | {"spark.executorEnv.PYTHONFAULTHANDLER": "1"}
    spark = session(confs | ONE_CORE_EACH if master.startswith("spark") else confs, master)
    troubled: dict[type[Any], type[Any]] = {RedisStore: TroubledInRedis, DeltaStore: TroubledInTable}
    for store, kind in troubled.items():
        store.open_batch = opening_as(kind, store, marks=folder, seed=seed, kinds=tuple(kinds))
    made = topology(url, [batch_of(seed, number) for number in range(rounds)])
    options: dict[str, Any] = {"checkpointLocation": folder / "checkpoint", "maxAttempts": 50}
    try:
        with made.start(spark, name="puts", **options) as running:
            threading.Thread(target=_tell, args=(running,), daemon=True).start()
            running.processAllAvailable()
            found = {name: dict(running.state(name).items()) for name in ("counts", "joined", "asked")}
            events = [event for event in running.recentProgress if event["event"] == "committed"]
    except FencedError as error:
        print(json.dumps({"fenced": str(error)}), flush=True)
        return FENCED
    except (StateUnavailableError, StateLostError) as error:
        print(json.dumps({"stopped": type(error).__name__}), flush=True)
        return STOPPED
    writers = sorted({state["writers"] for event in events for state in event["states"].values()})
    print(json.dumps({"found": found, "writers": writers}), flush=True)
    return 0


def _tell(running: Any) -> None:
    told = None
    while True:
        last = running.lastProgress
        if last is not None and last != told:
            told = last
            print(json.dumps({"txid": last["txid"], "event": last["event"], "error": last.get("error")}), flush=True)
        time.sleep(0.1)


if __name__ == "__main__":
    _folder, _url, _master, _kinds, _rounds, _seed = sys.argv[1:]
    sys.stdout.flush()
    os._exit(main(Path(_folder), _url, _master, _kinds.split(","), int(_rounds), int(_seed)))
