"""A process that has everything imported and forks a driver for each line it is given, so that a kill costs little.

A line in: {"case": {...}, "crash": "point:count" or ""}. A line out: {"signal": n} or {"exit": n}, and the result.
"""

import json
import os
import sys
import traceback

from tests.faults import drive
from trident.runtime import crash


def main() -> None:
    for line in sys.stdin:
        order = json.loads(line)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            _child(order, write)
        os.close(write)
        with os.fdopen(read) as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        signal = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
        answer = {"signal": signal, "told": json.loads(told) if told else None}
        print(json.dumps(answer), flush=True)


def _child(order: dict, write: int) -> None:  # type: ignore[type-arg]
    try:
        crash.arm(order["crash"])
        told = {"result": drive.run(drive.Case(**order["case"]))}
    except BaseException as error:
        told = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
    with os.fdopen(write, "w") as pipe:
        pipe.write(json.dumps(told))
    os._exit(0)


if __name__ == "__main__":
    main()
