"""The three streams of a query, and the place for its result."""

from benchmarks.nexmark.events import SCHEMAS, Events
from trident import FromJson, Stream, TridentTopology
from trident.base.cached_property import cached_property
from trident.spouts import FileSpout, KafkaSpout


class Nexmark:
    """The persons, auctions and bids for one query, which puts its result into the folder `out` or the state "result".

    A stream is read if the query names it. One file of each stream is a batch, or as many messages of each topic.
    """

    def __init__(self, events: Events, out: str) -> None:
        self.topology = TridentTopology()
        self.out = out
        self._events = events

    @cached_property
    def persons(self) -> Stream:
        return self._stream("persons")

    @cached_property
    def auctions(self) -> Stream:
        return self._stream("auctions")

    @cached_property
    def bids(self) -> Stream:
        return self._stream("bids")

    def _stream(self, table: str) -> Stream:
        if self._events.servers:
            return self._topic(table)
        files = self._events.files(table)
        spout = FileSpout(files, "parquet", schema=SCHEMAS[table], maxFilesPerBatch=1, orderBy="name")
        return self.topology.newStream(table, spout)

    def _topic(self, table: str) -> Stream:
        spout = KafkaSpout(self._events.servers, table, maxOffsetsPerBatch=self._events.most(table))
        rows = self.topology.newStream(table, spout).each("value", FromJson(SCHEMAS[table]))
        return rows.project([field.split()[0] for field in SCHEMAS[table].split(", ")])
