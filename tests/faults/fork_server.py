"""A process that has everything imported and forks a driver for each line it is given, so that a kill costs little.

A line in: {"case": {...}, "crash": "point:count" or ""} for a driver of `drive`, {"small": {...}, "fault": {...}} for
one of `small`. Two lines out: {"pid": n} as soon as it runs; at its end {"signal": n or null, "told": its result}.
"""

import json
import logging
import os
import sys
import traceback
import warnings

import pandas as pd  # noqa: F401  # Arrow imports it for a first array; here once, and not in each driver

from tests.faults import disk, drive, smallest_topology
from tests.faults.steps import Fault, Steps
from trident.base import crash_points


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(order, write)
        os.close(write)
        print(json.dumps({"pid": child}), flush=True)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        answer = {"signal": signal, "told": json.loads(told) if told else None}
        print(json.dumps(answer), flush=True)


def _child(order: dict, write: int) -> None:  # type: ignore[type-arg]
    try:
        crash_points.arm(order["crash"])
        told = _small(order) if "small" in order else {"result": drive.run(drive.Case(**order["case"]))}
    except BaseException as error:
        told = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    with os.fdopen(write, "w") as pipe:
        pipe.write(json.dumps(told))
    os._exit(0)


def _small(order: dict) -> dict:  # type: ignore[type-arg]
    logging.disable()
    warnings.simplefilter("ignore", RuntimeWarning)
    steps = Steps(Fault(**order["fault"]) if order["fault"] else None)
    with disk.watched(steps):
        return {
            "result": smallest_topology.run(smallest_topology.Small(**order["small"])),
            "met": steps.met,
            "parts": steps.parts,
        }


if __name__ == "__main__":
    main()
