"""The conversion of the tuples of a batch into messages."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from trident.plan.kafka_target import KafkaTarget

_CHUNK = 5_000
"""The most tuples that exist as Python objects at the same time."""

OUTPUT, TXID, ROW = "trident.output", "trident.txid", "trident.row"
"""The headers of a message that name its output, its batch, and its row in the batch."""

Text = str | bytes | None
Headers = list[tuple[str, Text]]


class Message(NamedTuple):
    """A message in the form that confluent-kafka accepts."""

    topic: str
    key: Text
    value: Text
    headers: Headers
    row: int


def messages(tables: Iterable[pa.Table], target: KafkaTarget, output: str, txid: int) -> Iterator[list[Message]]:
    """Yield the messages of a batch, some thousands at a time, in the order in which the rows were frozen."""
    of_batch: Headers = [(OUTPUT, output), (TXID, str(txid))]
    row = 0
    for table in tables:
        for part in table.to_batches(max_chunksize=_CHUNK):
            yield [
                Message(topic or target.topic, key, value, [*own, *of_batch, (ROW, str(number))], number)
                for number, (topic, key, value, own) in enumerate(_columns(part, target), row)
            ]
            row += part.num_rows


def _columns(part: pa.RecordBatch, target: KafkaTarget) -> Iterator[tuple[str | None, Text, Text, Headers]]:
    def column(field: str | None) -> list[Text]:
        return [None] * part.num_rows if field is None else part.column(field).to_pylist()

    headers: list[Headers] = [[]] * part.num_rows
    if target.headers is not None:
        given = part.column(target.headers).to_pylist()
        headers = [[(header["key"], header["value"]) for header in each or ()] for each in given]
    return zip(column(target.topic_field), column(target.key), column(target.value), headers, strict=True)  # type: ignore[arg-type]
