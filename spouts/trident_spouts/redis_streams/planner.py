"""Plans of batches: pages of several streams in turn, the positions after the pages, and reports of all losses."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

from trident.base.errors import DataLossError, TopologyError
from trident_spouts.batch_budget import NO_LIMIT, Budget
from trident_spouts.redis_streams.ids import ZERO
from trident_spouts.redis_streams.pages import PAGE_BYTES, PAGE_ENTRIES, Page
from trident_spouts.redis_streams.positions import Look, Position, after_page, begin, begin_again, loss
from trident_spouts.redis_streams.server import NotNowError, StreamServers

_log = logging.getLogger("trident.spouts")

OnDataLoss = Literal["fail", "warn"]

LATEST = "latest"
"""The value of a stream's start that means: read only entries that are added later."""

UNNAMED = ""
"""The start of a stream that `startingIds` leaves out."""

_LOOK = (files("trident_spouts.redis_streams") / "look.lua").read_bytes()


@dataclass(slots=True)
class Plan:
    """A batch under construction: its pages, the positions of all streams after it, and whether the batch is needed.

    A batch without entries is planned if it records a position that a restart could not find again: the beginning of a
    stream, or the position after a loss.
    """

    positions: dict[str, Position]
    pages: list[Page]
    entries: int = 0
    size: int = 0
    needed: bool = False


class Planner:
    """Plans batches of some streams.

    `starts`: the id after which each stream begins, or `LATEST`; `UNNAMED` for one that begins at its first entry if
    others have begun.
    """

    def __init__(
        self,
        servers: StreamServers,
        starts: Mapping[str, str],
        on_data_loss: OnDataLoss,
        most_entries: int,
        most_bytes: int,
    ) -> None:
        self._servers, self._starts, self._on_data_loss = servers, starts, on_data_loss
        self._most_entries, self._most_bytes = most_entries, most_bytes
        self._begun: dict[str, Position] = {}
        """The first positions of streams that no batch in the log has, because a repeated plan must begin at the same
        position."""
        self._continues = False
        """True if a plan has followed a batch, so that the beginning was accepted before."""
        self.added: dict[str, int] = {}
        """The number of entries ever added to each stream, when the server was last queried."""

    def next(self, known: Mapping[str, Position], txid: int, budget: Budget = NO_LIMIT) -> Plan | None:
        """Return the plan of the batch after the positions `known`; None if there is nothing to plan.

        Raises DataLossError if entries were lost and `onDataLoss` is "fail", and TopologyError if nothing was read yet,
        and only some streams have a start.
        """
        self._continues = self._continues or bool(known)
        if not self._continues:
            self._check_starts()
        new = [stream for stream in self._starts if stream not in known]
        self._begin([stream for stream in new if stream not in self._begun])
        plan = Plan(dict(known) | {stream: self._begun[stream] for stream in new}, [], needed=bool(new))
        # Each batch begins with another stream, so that no stream waits for ever if a batch has room for few entries.
        names = list(self._starts)
        waiting = names[txid % len(names) :] + names[: txid % len(names)]
        entries, size = budget.rows_within(self._most_entries), budget.bytes_within(self._most_bytes)
        while waiting and plan.entries < entries and plan.size < size:
            waiting = self._round(plan, waiting, entries - plan.entries, size - plan.size)
        return plan if plan.pages or plan.needed else None

    def _check_starts(self) -> None:
        missing = [stream for stream, start in self._starts.items() if start == UNNAMED]
        if missing:
            raise TopologyError(
                f"RedisStreamSpout: startingIds has no start for {', '.join(map(repr, missing))}: a new stream needs "
                f"one for each of its streams in Redis. Write {{{missing[0]!r}: 'earliest'}} to read all its entries, "
                f"or 'latest', an id or a datetime"
            )

    def _begin(self, streams: Sequence[str]) -> None:
        starts = [ZERO if self._starts[stream] in (LATEST, UNNAMED) else self._starts[stream] for stream in streams]
        looks = self._look([(stream, start, 0, 0) for stream, start in zip(streams, starts, strict=True)])
        for stream, start, look in zip(streams, starts, looks, strict=True):
            latest = self._starts[stream] == LATEST and look is not None
            self._begun[stream] = begin(look.last if latest and look else start, look)

    def _round(self, plan: Plan, waiting: list[str], room: int, bytes_left: int) -> list[str]:
        """Add a page of each stream while there is room, and return the streams that have more entries.

        There is room for `room` entries and `bytes_left` bytes.
        """
        most = min(PAGE_ENTRIES, max(1, room // len(waiting)))
        asked, later = waiting[:room], waiting[room:]
        size = min(PAGE_BYTES, max(1, bytes_left // len(asked)))
        looks = self._look([(stream, plan.positions[stream].id, most, size) for stream in asked])
        more = []
        for stream, look in zip(asked, looks, strict=True):
            position = self._checked(plan, stream, look)
            if look is None:
                continue
            if look.entries:
                plan.pages.append(Page(stream, plan.positions[stream].id, look.to, look.entries, look.to_digest))
                plan.entries += look.entries
                plan.size += look.size
            plan.positions[stream] = after_page(position, look)
            if look.next:
                more.append(stream)
        return later + more

    def _checked(self, plan: Plan, stream: str, look: Look | None) -> Position:
        """Return the stream's position, moved if entries were lost.

        A loss raises DataLossError, or a warning is logged.

        The position's id does not change unless the stream now ends before it.
        """
        position = plan.positions[stream]
        lost = loss(position, look)
        if lost is None:
            return position
        problem = f"RedisStreamSpout: stream {stream!r}: {lost}"
        if self._on_data_loss == "fail":
            raise DataLossError(
                f"{problem}. Start with onDataLoss='warn' to continue with the entries that are there. If the Redis "
                f"stream was recreated and you want to read all of it, use a stream with another name"
            )
        moved = begin_again(position, look)
        _log.warning("%s. Reading continues after %s, with the entries that are there", problem, moved.id)
        plan.positions[stream], plan.needed = moved, True
        return moved

    def _look(self, asked: Sequence[tuple[str, str, int, int]]) -> list[Look | None]:
        """Return the Look of the servers at each stream, with the page of entries after an id.

        `asked`: stream, id, the most entries of the page, and the bytes at which the page ends.
        """
        if not asked:
            return []
        requests = [
            (stream, ("EVAL_RO", _LOOK, 1, stream, after, entries, size)) for stream, after, entries, size in asked
        ]
        replies = self._servers.ask(requests, _check_master)
        looks = [Look.of_reply(reply[1:]) for reply in replies]
        for (stream, *_), look in zip(asked, looks, strict=True):
            self.added[stream] = look.added if look else 0
        return looks


def _check_master(replies: Sequence[list[Any]]) -> None:
    """Raise NotNowError if a replica answered, because it may lack entries that were read from its master."""
    roles = {reply[0] for reply in replies}
    if roles - {b"master"}:
        raise NotNowError("it is a replica, which may lack entries; the url must lead to its master")
