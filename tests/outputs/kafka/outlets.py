"""Kafka outputs without a run around them, and a driver in a process of its own, to be killed."""

import os
import signal
import time
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.support.topologies import DeclaredSpout
from trident import TridentTopology
from trident.base import crash_points
from trident.base.attempt import Lease
from trident.base.callsite import CallSite
from trident.base.spark_types import parse_schema
from trident.log.protocol import OutputProgress
from trident.outputs.kafka import outlet as kafka_outlet
from trident.outputs.kafka.messages import Message, messages
from trident.outputs.kafka.outlet import KafkaOutlet
from trident.outputs.run_identity import OutputMemory, ProcessMemory, RunIdentity
from trident.plan.kafka_target import KafkaTarget
from trident.plan.nodes import SpoutSource, WriteKafka
from trident.spouts import FixedBatchSpout
from trident.testing.local import start_local
from trident_spouts.executor import SpoutKind

LETTERS = "abcdef"
MID = "mid"
"""In place of a crash point: half of the messages are with the broker, and the transaction is open."""


def rows(*values: str) -> pa.Table:
    """Return a batch with these values."""
    return pa.table({"value": list(values)})


class Memory(ProcessMemory):
    """The memory of a log that knows which batch an output took last, and which drivers it started."""

    def __init__(self, last: int = 0, tokens: Collection[str] = ("",)) -> None:
        super().__init__()
        self._last, self._tokens = last, tokens

    def issued(self, lease: Lease) -> bool:
        return lease.token in self._tokens

    def progress(self, output: str) -> OutputProgress:
        return OutputProgress(self._last)


def sink_of(servers: str, topic: str, name: str, field: str = "value", **target: Any) -> WriteKafka:
    """Return the step of an output of rows with one field."""
    site, schema = CallSite("x"), parse_schema(f"{field} string")
    source = SpoutSource("s", DeclaredSpout(SpoutKind.TRANSACTIONAL), step="s/0", site=site, schema=schema)
    given: dict[str, Any] = {"key": None, "value": "value", "headers": None, "topic_field": None, "options": {}}
    given |= {"guarantee": "exactly-once"} | target
    return WriteKafka(
        source, name, KafkaTarget(servers, topic, **given), step="s/1:writeKafka", site=site, schema=schema
    )


def outlet(
    servers: str,
    topic: str,
    epoch: int = 1,
    last_frozen: int = 0,
    log: str = "uuid",
    name: str = "out",
    memory: OutputMemory | None = None,
    token: str = "",
    **target: Any,
) -> KafkaOutlet:
    """Return a Kafka output of the topology named like the topic."""
    sink = sink_of(servers, topic, name, **target)
    run = RunIdentity(topic, log, epoch, last_frozen, token, memory or ProcessMemory())
    return KafkaOutlet(sink, run, lambda result: [result])


def topology(servers: str, topic: str, *more: str, **options: Any) -> TridentTopology:
    """Return a topology of six batches, each with one letter four times. `more` are names of further outputs."""
    made = TridentTopology()
    batches = [[f"{letter}{number}" for number in range(4)] for letter in LETTERS]
    letters = made.newStream("letters", FixedBatchSpout("value string", batches)).writeKafka(servers, topic, **options)
    for name in more:
        letters.writeKafka(servers, topic, name=name)
    return made


EXPECTED = sorted(f"{letter}{number}".encode() for letter in LETTERS for number in range(4))


def run(servers: str, topic: str, folder: Path, crash_at: str, options: dict[str, Any]) -> None:
    """Live once, as a driver: killed at a point, or at the end, when all is committed."""
    if crash_at.startswith(MID):
        _die_within(int(crash_at.partition(":")[2]))
    else:
        crash_points.arm(crash_at)
    running = start_local(topology(servers, topic, **options), name=topic, checkpointLocation=folder)
    running.processAllAvailable(timeout=60)
    os.kill(os.getpid(), signal.SIGUSR1)  # it dies of another signal than a killed one


def _die_within(batch: int) -> None:
    def halved(tables: Iterable[pa.Table], target: KafkaTarget, output: str, txid: int) -> Iterator[list[Message]]:
        for chunk in messages(tables, target, output, txid):
            if txid == batch:
                yield chunk[: len(chunk) // 2]
                time.sleep(0.5)  # the broker has them
                os.kill(os.getpid(), signal.SIGKILL)
            yield chunk

    kafka_outlet.messages = halved  # type: ignore[assignment]
