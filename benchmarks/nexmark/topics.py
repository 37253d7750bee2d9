"""The tables as topics of Kafka, with the same rows in the same order: JSON, as another program would send it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime

import pyarrow.parquet as pq

from benchmarks.nexmark.events import SCHEMAS, Events
from tests.support.kafka import KafkaBroker

AT_ONCE = 50_000
"""The messages of which Kafka's client keeps copies until the broker has them; it takes 100,000 at most."""


def send(events: Events, broker: KafkaBroker) -> Events:
    """Send all rows, and return the events with the broker's address, as a program finds them in their folder.

    Each table is one partition, because a query with a watermark loses rows if partitions go on at their own pace.
    """
    for table in SCHEMAS:
        broker.create(table, 1)
        for rows in _slices(events, table):
            broker.send(table, rows)
    sent = replace(events, servers=broker.servers)
    sent.save()
    return sent


def _slices(events: Events, table: str) -> Iterator[list[str]]:
    for path in events.paths(table):
        for batch in pq.ParquetFile(path).iter_batches(AT_ONCE):
            yield [json.dumps(row, default=datetime.isoformat) for row in batch.to_pylist()]
