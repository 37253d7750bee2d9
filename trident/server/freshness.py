"""The freshness of an answer: the batches that it shows, the times of their commits, and their age."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from trident.base.iso_times import iso_time
from trident.server.route_types import InThread
from trident.server.served_topology import Served


class Freshness:
    """Computes the freshness of answers. `in_thread` runs work that may wait for the log."""

    def __init__(self, served: Served, in_thread: InThread) -> None:
        self._served, self._in_thread = served, in_thread
        self._looks: dict[tuple[str, int], asyncio.Future[float | None]] = {}
        """The running look-ups in the log, by group and txid. All answers that need the same look-up share it."""

    async def of(self, txids: Mapping[str, int]) -> dict[str, Any]:
        """Return ``asOfTxid`` and ``committedAt`` for each group in an answer, and the answer's ``stalenessMs``.

        The staleness is the time since the oldest of these commits, by this machine's clock. It is None if a group has
        committed no batch yet, or if the log does not have the time.
        """
        times = {group: await self._time(group, txid) for group, txid in txids.items()}
        known = [each for each in times.values() if each is not None]
        oldest = min(known) if known and len(known) == len(times) else None
        return {
            "asOfTxid": dict(txids),
            "committedAt": {group: None if each is None else iso_time(each) for group, each in times.items()},
            "stalenessMs": None if oldest is None else max(0, round((time.time() - oldest) * 1000)),
        }

    async def _time(self, group: str, txid: int) -> float | None:
        times = self._served.commitTimes(group)
        if (at_hand := times.at_hand(txid)) is not None:
            return at_hand
        look = self._looks.get((group, txid))
        if look is None:
            look = self._looks[group, txid] = asyncio.ensure_future(self._in_thread(lambda: times.of(txid)))
            look.add_done_callback(lambda done: self._looks.pop((group, txid)))
        # Shielded: a client that leaves ends its own answer, but not the look-up that others wait for.
        return await asyncio.shield(look)
