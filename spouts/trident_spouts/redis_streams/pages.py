"""Pages: ranges of ids that a plan names and a worker reads. Counts and digests make changes visible."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from trident.base.errors import DataLossError, MalformedInputError, SourceUnreadableError
from trident.base.redis_address import Address
from trident.base.spark_types import arrow_schema
from trident_spouts.redis_streams.entries import Entry, EntryFormat, digest_of
from trident_spouts.redis_streams.server import StreamServers

PAGE_ENTRIES = 1000
"""The most entries of a page. The server needs about 2 microseconds for each entry that it examines."""

PAGE_BYTES = 1 << 20
"""The number of bytes at which a page ends."""

SHARE_PAGES = 10
"""The most pages that one worker reads one after the other."""


class Page(NamedTuple):
    """The entries of a stream after the id `after`, up to the id `to`, with their number and the last entry's digest.

    In the same stream, entries between two ids can only vanish. The digest shows whether it is the same stream, the
    number whether entries have vanished.
    """

    stream: str
    after: str
    to: str
    entries: int
    digest: str


def shares_of(pages: Sequence[Page]) -> tuple[tuple[Page, ...], ...]:
    """Return the pages in shares for workers.

    >>> [len(share) for share in shares_of([Page("s", "0-0", "1-0", 1, "")] * 12)]
    [10, 2]
    """
    return tuple(tuple(pages[at : at + SHARE_PAGES]) for at in range(0, len(pages), SHARE_PAGES))


@dataclass(frozen=True, slots=True)
class PageReader:
    """The function by which a worker reads the pages of a share. With `replans`, a failed batch is planned again."""

    address: Address
    format: EntryFormat
    patience: float
    replans: bool

    def __call__(self, pages: Sequence[Page]) -> pa.Table:
        """Return the tuples of the pages. Raises an error if a page does not hold the planned entries."""
        with closing(StreamServers(self.address, self.patience)) as servers:
            # One page after the other, because the garbage collector repeatedly walks over all entries in memory.
            tables = [self._table(page, servers) for page in pages]
        return pa.concat_tables([arrow_schema(self.format.schema).empty_table(), *tables])

    def _table(self, page: Page, servers: StreamServers) -> pa.Table:
        # If the range had more entries by now, the last received entry would be another one.
        request = ("XRANGE", page.stream, f"({page.after}", page.to, "COUNT", page.entries)
        (entries,) = servers.ask([(page.stream, request)])
        self._check(page, entries)
        try:
            return self.format.table(page.stream, entries)
        except MalformedInputError as error:
            raise MalformedInputError(f"RedisStreamSpout: {error}") from None

    def _check(self, page: Page, entries: list[Entry]) -> None:
        """Raise an error unless `entries` are the planned entries."""
        if len(entries) == page.entries and digest_of(entries[-1]) == page.digest:
            return
        missing = page.entries - len(entries)
        what = f"{missing} of them are missing" if missing > 0 else "other entries are there now"
        problem = (
            f"RedisStreamSpout: stream {page.stream!r}: the batch was planned with {page.entries} entries after "
            f"{page.after} up to {page.to}, and {what}: they were deleted or trimmed, or the server has lost them"
        )
        if self.replans:
            raise SourceUnreadableError(f"{problem}; the batch is planned again")
        raise DataLossError(
            f"{problem}. Nothing of the batch was applied: the next start plans it again. With kind='opaque' the "
            f"same run plans it again; with onDataLoss='warn' the run continues with the entries that are there"
        )
