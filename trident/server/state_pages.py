"""Reads of whole states: pages in a fixed order of the keys, and top lists.

A page needs the order of all keys. So the first page reads the whole state once, for all clients that request it
meanwhile, and the rows are kept for later pages. Few such reads run at the same time, because they share the
interpreter with the driver, and each ends as soon as no client waits for it.
"""

import asyncio
import base64
import binascii
import time
import zlib
from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request

from trident.base.argument_checks import whole_number_in
from trident.base.short_texts import brief
from trident.reads.committed_reads import ReadAbandoned, checked_by
from trident.reads.state_view import StateView
from trident.server.connection import while_connected
from trident.server.errors import RequestError
from trident.server.request_context import context_of
from trident.server.request_slots import RequestSlots
from trident.server.route_types import InThread
from trident_state.keys import encode_keys

_T = TypeVar("_T")

ReadPart = Callable[[], tuple[pa.Table, str | None]]
"""A read of a page of a part of a state: the entries, and the cursor of the next page."""

WAITING = 64
"""The most requests that wait for reads of whole states."""

_AT_ONCE = 2
"""The most reads of whole states at the same time."""

_MOST_BYTES = 128 << 20
"""The most bytes of states that are kept for further pages. A larger state is read again for each page."""

_KEPT_SECONDS = 30.0
"""The seconds for which a state is kept after its last page."""

_LARGE = 10_000
_PAUSE, _LONGEST_PAUSE = 2.0, 2.0
"""A state of `_LARGE` entries is read again for pages after a pause of `_PAUSE` times the CPU time of the last read, at
most `_LONGEST_PAUSE` seconds. So pages take only a part of one CPU from the driver, even with many clients."""


class Listing(NamedTuple):
    """The entries of a state in the order of their keys, and the encoded keys."""

    entries: pa.Table
    keys: pa.Array
    txid: int | None
    seconds: float
    """The CPU time of the read."""

    @property
    def bytes(self) -> int:
        return int(self.entries.nbytes + self.keys.nbytes)


class _Look:
    """A read of a whole state for all clients that wait for it."""

    def __init__(self, task: "asyncio.Task[Listing]") -> None:
        self.task, self.waiting = task, 0


class Listings:
    """The reads of whole states of one server. Its methods run in the server's event loop."""

    def __init__(self, in_thread: InThread, shared: bool) -> None:
        self._in_thread = in_thread
        self._places = RequestSlots("requests that read whole states at most", WAITING, shared=shared)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._looks: dict[str, _Look] = {}
        self._kept: dict[str, Listing] = {}
        """The states kept for further pages; the last requested state comes last."""
        self._uses: dict[str, int] = {}
        self._next: dict[str, float] = {}
        """The time from which each state may be read again (the event loop's time)."""

    async def page(
        self, request: Request, view: StateView, rows: int, after: str | None, least: int
    ) -> tuple[pa.Table, str | None]:
        """Return the entries that follow the cursor `after`, and the next cursor, which is None after the last page.

        Each page is as of the batch that it names, which is `least` or a later batch. A key that exists throughout is
        returned exactly once. Pages that follow soon are as of the same batch.
        """
        read, key = (None, None) if after is None else _read_cursor(view.name, after)
        listing = await self.of(request, view, read if read is not None and read >= least else None)
        keys = listing.keys
        first = 0 if key is None else bisect_right(range(len(keys)), key, key=lambda at: keys[at].as_py())
        page, end = listing.entries.slice(first, rows), first + rows
        return page, None if end >= len(keys) else _cursor(view.name, listing.txid, keys[end - 1].as_py())

    async def ranked(self, request: Request, view: StateView, count: int, by: str | None) -> pa.Table:
        """Return the entries with the greatest values."""
        with self._places.taken(context_of(request).holder):
            return await while_connected(request, self._read(lambda: view.ranked(count, by)))

    async def part(self, request: Request, read: ReadPart) -> tuple[pa.Table, str | None]:
        """Return a page of a part of a state, as of the last committed batch, and the cursor of the next page."""
        with self._places.taken(context_of(request).holder):
            return await while_connected(request, self._read(read))

    async def of(self, request: Request, view: StateView, read: int | None = None) -> Listing:
        """Return the entries of a state as of the last committed batch, or as of the batch `read` if it is kept."""
        committed = await self._in_thread(lambda: view.asOfTxid)
        if (kept := self._kept.get(_entry_of(view))) is not None and kept.txid in (read, committed):
            return self._used(_entry_of(view), kept)
        with self._places.taken(context_of(request).holder):
            return await while_connected(request, self._newest(view, committed))

    async def _newest(self, view: StateView, committed: int | None) -> Listing:
        joined = _entry_of(view) in self._looks
        listing = await self._wait_for(view)
        # A read that began before this request may be as of an older batch; the next one cannot be.
        if joined and (listing.txid is None or committed is None or listing.txid < committed):
            listing = await self._wait_for(view)
        return listing

    async def _wait_for(self, view: StateView) -> Listing:
        """Return the result of the read in progress, or otherwise of a new read.

        A read without a waiting client ends.
        """
        name = _entry_of(view)
        look = self._looks.get(name)
        if look is None:
            look = self._looks[name] = _Look(asyncio.ensure_future(self._list(view)))
            look.task.add_done_callback(lambda done: self._forget(name, done))
        look.waiting += 1
        try:
            return await asyncio.shield(look.task)
        finally:
            look.waiting -= 1
            if not look.waiting:
                look.task.cancel()
                self._forget(name, look.task)  # immediately, because no client may join a read that is ending

    def _forget(self, state: str, task: "asyncio.Task[Listing]") -> None:
        if state in self._looks and self._looks[state].task is task:
            del self._looks[state]
        if task.done() and not task.cancelled():
            task.exception()  # raised in the clients that still wait

    async def _list(self, view: StateView) -> Listing:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(self._next.get(view.name, 0.0) - loop.time())
        listing = await self._read(lambda: listed(view))
        pause = min(_PAUSE * listing.seconds, _LONGEST_PAUSE) if listing.entries.num_rows >= _LARGE else 0.0
        self._next[view.name] = loop.time() + pause
        return self._used(_entry_of(view), listing)

    async def _read(self, work: Callable[[], _T]) -> _T:
        """Return the result of a read of a whole state, which runs in a thread.

        The read ends if this call is cancelled.
        """
        over = False

        def check() -> None:
            if over:
                raise ReadAbandoned

        def checked() -> _T:
            with checked_by(check):
                check()
                return work()

        async with self._turns:
            try:
                return await self._in_thread(checked)
            finally:
                over = True

    def _used(self, state: str, listing: Listing) -> Listing:
        """Keep a state for some time after its last use, if there is room for it."""
        self._kept.pop(state, None)
        if listing.txid is None or listing.bytes > _MOST_BYTES:
            return listing
        self._kept[state] = listing
        while sum(each.bytes for each in self._kept.values()) > _MOST_BYTES:
            del self._kept[next(iter(self._kept))]
        use = self._uses[state] = self._uses.get(state, 0) + 1

        def drop() -> None:
            if self._uses[state] == use:
                self._kept.pop(state, None)

        asyncio.get_running_loop().call_later(_KEPT_SECONDS, drop)
        return listing


def listed(view: StateView) -> Listing:
    """Return the entries of a state in the order of their keys."""
    began, table = time.thread_time(), view.toArrow()
    keys = encode_keys(table.select(view.keyFields.names))
    order = pc.sort_indices(keys)
    return Listing(table.take(order), keys.take(order), txid_of(table), time.thread_time() - began)


def _entry_of(view: StateView) -> str:
    """Return the name under which a listing is kept: the state's, and the txid if the request named one."""
    return f"{view.name} as of {view.asOfTxid}" if view.isPast else view.name


def txid_of(table: pa.Table) -> int | None:
    """Return the txid as of which a table was read."""
    text = (table.schema.metadata or {}).get(b"asOfTxid")
    return None if text is None else int(text)


def value_fields(view: StateView) -> list[str]:
    """Return the names of the fields of a state's values; no names unless the values are structs."""
    kind = view.valueType
    return [kind.field(at).name for at in range(kind.num_fields)] if pa.types.is_struct(kind) else []


def _cursor(state: str, txid: int | None, key: bytes) -> str:
    return f"{'' if txid is None else txid}.{_check(state, key)}.{base64.urlsafe_b64encode(key).decode()}"


def _check(state: str, key: bytes) -> str:
    """Return the checksum by which a reader notices a truncated cursor, or a cursor of another state."""
    return f"{zlib.crc32(key, zlib.crc32(state.encode())):08x}"


def _read_cursor(state: str, text: str) -> tuple[int | None, bytes]:
    """Return the batch of a cursor's page, and the key at which the page ended."""
    try:
        txid, check, encoded = text.split(".")
        number, key = whole_number_in(txid), base64.b64decode(encoded, altchars=b"-_", validate=True)
        if (number is None and txid) or check != _check(state, key):
            raise ValueError(text)
    except (binascii.Error, ValueError):
        raise RequestError(
            400, "InvalidQuery", f"after={brief(text)} is not the cursor of a page of state {state!r}"
        ) from None
    return number, key
