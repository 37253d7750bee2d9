"""One driver of a program, in the present folder: ``python -m tests.compatibility.drive CASE PARTS [read]``."""

import json
import os
import socket
import sys
from typing import Any

from tests.compatibility.cases import CASES, Case
from tests.compatibility.entries import entries
from tests.compatibility.programs import CHECKPOINT, NAME, Places
from trident import openTopology
from trident.log import RedisLog
from trident.run.running import RunningTopology
from trident.testing.local import start_local


def where(case: Case, places: Places) -> dict[str, Any]:
    """Return the options that locate the log."""
    if case.redisLog:
        return {"name": NAME, "log": RedisLog(places.redis, requireDurable=False)}
    return {"name": NAME, "checkpointLocation": CHECKPOINT}


def started(case: Case, places: Places) -> RunningTopology:
    """Start the program in the present folder."""
    return start_local(case.topology(places), maxSpoutPending=1, **where(case, places))


def run(case: Case, places: Places) -> dict[str, Any]:
    """Process all input that is there, and return the content of the states and the results of the outputs."""
    case.prepare(places)
    if case.drive is not None:
        case.drive()
        return {"states": opened(case, places), "results": case.results(places)}
    with started(case, places) as running:
        running.processAllAvailable(timeout=120)
        case.during(running, places)
        states = {name: entries(running.state(name)) for name in case.states}
    return {"states": states, "results": case.results(places)}


def opened(case: Case, places: Places) -> dict[str, Any]:
    """Return the content of the states as of the last committed batch, read without a driver."""
    with openTopology(case.topology(places), **where(case, places)) as topology:
        return {name: entries(topology.state(name)) for name in case.states}


def main() -> None:
    socket.gethostname = lambda: "golden"  # the log names the machine of its driver
    case, parts = CASES[sys.argv[1]], int(sys.argv[2])
    places = Places(parts, *(os.environ.get(f"GOLDEN_{server}", "") for server in ("REDIS", "POSTGRES", "KAFKA")))
    print(json.dumps((opened if sys.argv[3:] == ["read"] else run)(case, places)))


if __name__ == "__main__":
    main()
