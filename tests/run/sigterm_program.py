"""A program that SIGTERM ends: ``python -m tests.run.sigterm_program <how> <checkpoint>``.

It says "ready" once batches commit, then what happens to it, one line each.
"""

import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

from trident import Count, TridentTopology
from trident.run.running import RunningTopology
from trident.spouts import PollingSpout
from trident.state import MemoryMapState


def say(*words: object) -> None:
    print(*words, flush=True)


def counting() -> TridentTopology:
    """Count numbers that never end, 100 in a batch; each batch takes a while to be handed over."""
    topology = TridentTopology()
    numbers = topology.newStream("numbers", PollingSpout("n long", {"numbers": more}, maxRows=100))
    numbers.persistentAggregate(MemoryMapState.opaque(), Count(), "count", name="count")
    numbers.foreachArrow(lambda table, txid, attempt: time.sleep(0.05))
    return topology


def more(position: int | None, limit: int) -> tuple[list[int], int]:
    first = position or 0
    return list(range(first, first + limit)), first + limit


def started(checkpoint: str, engine: Any = "embedded") -> RunningTopology:
    return counting().start(engine=engine, name="t", checkpointLocation=checkpoint)


def ready(running: RunningTopology) -> None:
    while running.lastProgress is None:
        time.sleep(0.01)
    say("ready")


def sleep() -> None:
    """Sleep, in short pieces: Python runs the handler of a signal that comes just before a sleep only after it."""
    for _ in range(600):
        time.sleep(1)


def own_handler(number: int, frame: Any) -> None:
    say("own handler")
    sys.exit(7)


def main(how: str, checkpoint: str) -> None:
    if how in ("with", "spark"):
        try:
            with started(checkpoint, "spark" if how == "spark" else "embedded") as running:
                ready(running)
                running.awaitTermination()
        finally:
            say("finally")
    elif how == "no with":
        ready(started(checkpoint))
        sleep()
    elif how == "own handler":
        signal.signal(signal.SIGTERM, own_handler)
        ready(started(checkpoint))
        sleep()
    elif how == "other thread":
        starting = threading.Thread(target=lambda: ready(started(checkpoint)))
        starting.start()
        starting.join()
        say(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL)
        sleep()
    elif how == "ended":
        running = counting().start(engine="embedded", name="t", checkpointLocation=checkpoint)
        running.stop_soon()  # it ends in a thread of its own, which cannot set the former handler again
        running.wait_ended(30)
        say("ready")
        sleep()


if __name__ == "__main__":
    main(sys.argv[1], str(Path(sys.argv[2])))
