"""Record the stores of the version that is on the path: ``python -m tests.data.recorded.record <folder>``.

Makes ``<folder>/<recording>/`` for each recording; see README.md there.
"""

import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

from tests.data.recorded import program
from tests.data.recorded.store import keep
from tests.support.server import RedisServer
from trident.base import crash_points

ENDS = {"clean": None, "frozen": "freeze.after", "planned": "plan.logged"}
"""How a recording ends: in good order, or by SIGKILL as soon as all groups have reached a point."""

GROUPS = 2
"""Groups that get rows behind those that are committed; a `FixedBatchSpout` cannot be given any more."""


def main(folder: Path) -> None:
    for end in ENDS:
        for where in ("memory", "redis"):
            record(folder / f"{where}-{end}", end, where == "redis")


def record(folder: Path, end: str, in_redis: bool) -> None:
    """Make one recording."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        with RedisServer(place / "server", "none") as server:
            url = server.url if in_redis else None
            _in_child(lambda: _run(place, end, url))
            told: dict[str, Any] = {"groups": _groups(place, url), "handed": program.handed(place)}
            told["contents"] = json.loads((place / "contents").read_text())
            _copy(place, place / "recorded")
            keep(place / "recorded", server.client if in_redis else None, folder)
            time.sleep(1.5)  # what lives for a second has expired when the next batch comes
            _in_child(lambda: _go_on(place, url))
        told["contents after more"] = json.loads((place / "contents").read_text())
        if end == "planned":  # whether LAST and MORE are two batches or one decides what has expired
            del told["contents after more"]["recent"]
        told["handed after more"] = program.handed(place)
    (folder / "expected.json").write_text(json.dumps(told, indent=1, sort_keys=True) + "\n")


def _in_child(work: Any) -> None:
    """Do this in a process of its own, which may kill itself."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, f"the run failed: {status}"


def _run(folder: Path, end: str, url: str | None) -> None:
    source = program.rows(
        program.COMMITTED, {**program.LAST, "orders": program.LAST["orders"] if end == "clean" else []}
    )
    for stream in ("visits", "clicks", "ads"):
        del source[stream][len(program.COMMITTED[stream]) :]
    first = {**source, "orders": source["orders"][:1], "clicks": source["clicks"][:1]}
    with program.start(folder, first, url) as running:  # so that there are snapshots, and a second driver
        running.processAllAvailable(timeout=60)
    running = program.start(folder, source, url)
    running.processAllAvailable(timeout=60)
    time.sleep(1.5)
    if (point := ENDS[end]) is not None:
        (folder / "contents").write_text(json.dumps(program.contents(running)))
        _die_at(point)
    for stream in ("ads", "clicks", "visits"):
        source[stream] += program.LAST[stream]
    running.processAllAvailable(timeout=60)
    (folder / "contents").write_text(json.dumps(program.contents(running)))
    running.stop()


def _die_at(point: str) -> None:
    reached: set[int] = set()
    turn = threading.Lock()

    def heard(there: str) -> None:
        if there != point:
            return
        with turn:
            reached.add(threading.get_ident())
            if len(reached) == GROUPS:
                os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)

    crash_points.listen(heard)


def _go_on(folder: Path, url: str | None) -> None:
    with program.start(folder, program.rows(program.COMMITTED, program.LAST, program.MORE), url) as running:
        running.processAllAvailable(timeout=60)
        (folder / "contents").write_text(json.dumps(program.contents(running)))


def _groups(folder: Path, url: str | None) -> dict[str, Any]:
    """What the log says of each group."""
    from trident.log import RedisLog
    from trident.log.sqlite_log import SqliteLog

    if url is None:
        copy = folder / "copy"  # a look at the log itself would tidy it up
        _copy(folder, copy)
        log: Any = SqliteLog(copy / "checkpoint" / program.NAME / "log.sqlite", program.NAME, reading=True)
    else:
        log = RedisLog(url).look(program.NAME)
    told = {}
    for group in log.groups():
        history = log.history(group)
        told[group] = {
            "committed": history.committed,
            "frozen": list(history.frozen),
            "planned": [attempt for attempt, _ in history.planned],
            "positions": history.positions,
        }
    log.close()
    return told


def _copy(folder: Path, into: Path) -> None:
    """The files of the run: the checkpoint and what the outputs noted."""
    shutil.copytree(folder / "checkpoint", into / "checkpoint", ignore=shutil.ignore_patterns("*-shm"))
    shutil.copy(folder / "handed", into / "handed")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
