"""A driver that is stopped in the middle of a write, taken over, and then goes on as if nothing had happened."""

import contextlib
import os
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.faults import request_steps, smallest_topology
from tests.faults.driver_forks import Zygote
from tests.faults.smallest_topology import Small, expected
from tests.support.processes import stop
from tests.support.request_proxy import Cut, RequestProxy
from tests.support.server import RedisServer
from trident.run.start import LOG_FILE


@pytest.mark.parametrize("kind", ["transactional", "opaque"])
@pytest.mark.parametrize("step", ["sums: OPEN MERGE COMMIT", "seqs: OPEN HMGET", "seqs: PUT COMMIT"])
def test_a_sleeper_whose_write_arrives_after_the_takeover_changes_nothing_and_stops(
    step: str, kind: str, zygote: Zygote, tmp_path: Path, shared_redis: RedisServer
) -> None:
    """SIGSTOP while a request is on its way; another driver does everything; the request arrives, then SIGCONT."""
    sleeper = [0]
    seen = 0
    taken_over: list[object] = []
    takeover = Small(kind, "two", "redis", str(tmp_path), shared_redis.url)

    def stopping(commands: Sequence[bytes]) -> Cut | None:
        nonlocal seen
        if request_steps.name_of(commands) == step and not taken_over:
            seen += 1
            if seen == 2:
                taken_over.append(_while_asleep(sleeper[0], tmp_path / smallest_topology.NAME / LOG_FILE, takeover))
        return None

    with RequestProxy(shared_redis.port, stopping) as proxy:
        url = f"redis://127.0.0.1:{proxy.port}/0"
        sleeper[0] = zygote.begin(Small(kind, "two", "redis", str(tmp_path), url))
        end = zygote.end()
    assert taken_over == [expected("two")]
    assert end.error is not None and end.error.startswith("FencedError: "), end
    assert smallest_topology.run(takeover) == expected("two")


def _while_asleep(pid: int, log: Path, takeover: Small) -> object:
    """What another driver comes to while this one is stopped, or what stops it."""
    stop(pid)
    try:
        while _locked(log):  # a driver that sleeps in the middle of a transaction lets nobody in
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.001)
            stop(pid)
        return smallest_topology.run(takeover)
    except BaseException as error:
        return error
    finally:
        os.kill(pid, signal.SIGCONT)


def _locked(log: Path) -> bool:
    with contextlib.closing(sqlite3.connect(log, timeout=0, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
        return False
