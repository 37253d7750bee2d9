"""The three streams of a query, and the place for its result."""

from functools import cached_property

from benchmarks.nexmark.events import SCHEMAS, Events
from trident import Stream, TridentTopology
from trident.spouts import FileSpout


class Nexmark:
    """The persons, auctions and bids for one query, which puts its result into the folder `out` or the state "result".

    A stream is read if the query names it: one file of each stream is a batch.
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
        files = self._events.files(table)
        spout = FileSpout(files, "parquet", schema=SCHEMAS[table], maxFilesPerBatch=1, orderBy="name")
        return self.topology.newStream(table, spout)
