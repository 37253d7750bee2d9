"""The topology that drivers and standbys run: ``trident run tests.faults.standby_program:topology``.

It sums the whole numbers from 0 on, ten in a batch. Whatever was summed, each once, is a triangular number.
"""

import os
import time

from trident import Sum, TridentTopology
from trident.spouts import PollingSpout
from trident.state import MemoryMapState, RedisMapState

ROWS = 10


def more(position: int | None, limit: int) -> tuple[list[int], int]:
    first = position or 0
    return list(range(first, first + limit)), first + limit


def topology() -> TridentTopology:
    """With its state on the server STATE_URL, if that is set."""
    url = os.environ.get("STATE_URL")
    made = TridentTopology()
    numbers = made.newStream("numbers", PollingSpout("n long", {"numbers": more}, maxRows=ROWS))
    state = MemoryMapState.opaque() if url is None else RedisMapState.opaque(url)
    numbers.persistentAggregate(state, "n", Sum(), "sum", name="sum")
    numbers.foreachArrow(lambda table, txid, attempt: time.sleep(0.02))
    return made
