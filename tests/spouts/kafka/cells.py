"""A driver that counts one topic in all cells of the guarantee table at once: each kind of spout with each of state."""

import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

from trident import Count, TridentTopology
from trident.spouts import KafkaSpout
from trident.state import RedisMapState
from trident.testing.local import start_local

SPOUTS: tuple[Literal["transactional", "opaque"], ...] = ("transactional", "opaque")
STATES = ("transactional", "opaque", "nonTransactional")
CELLS = [(spout, state) for spout in SPOUTS for state in STATES]


def counting(servers: str, topic: str, spout: Literal["transactional", "opaque"], state: Any) -> TridentTopology:
    """Return a topology that counts the values of a topic."""
    topology = TridentTopology()
    source = KafkaSpout(servers, topic, kind=spout, maxOffsetsPerBatch=50)
    letters = topology.newStream("letters", source).each("value", bytes.decode, "letter string")
    letters.groupBy("letter").persistentAggregate(state, Count(), "count", name="counts")
    return topology


def main(servers: str, topic: str, redis: str, folder: str, until: str) -> None:
    """Count until this process is killed; or, with `until` a file, until everything is counted: write it there."""
    running = {
        (spout, state): start_local(
            counting(servers, topic, spout, getattr(RedisMapState, state)(redis)),
            name=f"{spout}-{state}",
            checkpointLocation=Path(folder) / f"{spout}-{state}",
            maxAttempts=50,  # several drivers in a row may be killed before they freeze a batch
        )
        for spout, state in CELLS
    }
    print("started", flush=True)
    for each in running.values():
        each.processAllAvailable(timeout=120)
    if until == "killed":
        each.awaitTermination()
    counts = {"/".join(cell): dict(each.state("counts").items()) for cell, each in running.items()}
    Path(until).write_text(json.dumps(counts))
    os._exit(0)  # nothing is to be tidied up: the test compares what is durable


if __name__ == "__main__":
    main(*sys.argv[1:])
