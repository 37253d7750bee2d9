"""What the log in a file and the log in Redis do alike: what they refuse, in which words, and what a trim keeps."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from trident.base.attempt import Lease
from trident.base.errors import FencedError, LogCorruptError, LogError
from trident.log.migration import VERSION, batch_checksum
from trident.log.protocol import BatchRecord, StreamRecord
from trident_spouts.executor import Metadata


class LogBase:
    """Of a log. `where` begins its messages; `place` is how a reset is told where it lies."""

    def __init__(self, where: str, place: str, reading: bool) -> None:
        self._where, self._place, self._reading = where, place, reading

    def _check_writing(self) -> None:
        if self._reading:
            raise LogError(f"{self._where} was opened to be read, and cannot be written")

    def _check_complete(self, group: str, waiting: Sequence[int], there: Sequence[object]) -> None:
        """Refuse a log that lacks what a waiting batch froze. `there`: whether it has it, batch by batch."""
        for txid, found in zip(waiting, there, strict=True):
            if not found:
                raise self._corrupt(f"group {group!r} lacks the frozen content of batch {txid}")

    def _record(self, group: str, txid: int, plan: str, time: float, outline: str, checksum: int) -> BatchRecord:
        """A batch, from what was stored of it."""
        if batch_checksum(txid, plan, time, outline) != checksum:
            raise self._corrupt(f"group {group!r}: the checksum of the plan of batch {txid} does not fit")
        return BatchRecord(self._json(plan), time, outline)

    def _stream(
        self,
        group: str,
        position: Metadata,
        source: str,
        active: bool,
        began: Metadata,
        feeds: Sequence[str] | None,
        parted: Mapping[str, Metadata],
    ) -> StreamRecord:
        """A stream, from what was stored of it."""
        return StreamRecord(group, position, source, active, began, None if feeds is None else tuple(feeds), parted)

    def _json(self, text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._corrupt(f"a field is not JSON: {error}") from error

    def _corrupt(self, what: str) -> LogCorruptError:
        return LogCorruptError(
            f"{self._where} is damaged: {what}. Nothing was written. Restore it from a copy, "
            f"or give up log and states together with topology.reset(name, {self._place})"
        )

    def _former(self) -> LogError:
        return LogError(
            f"{self._where} was written by version {VERSION}: start its topology once with this version, which "
            f"brings it into today's format"
        )

    def _taken_over(self, epoch: int | str, lease: Lease) -> FencedError:
        return FencedError(
            f"{self._where} was taken over by another driver (epoch {epoch}, ours is {lease.epoch}); "
            f"this one stops without writing"
        )


def trim_until(sizes: Sequence[tuple[int, int]], needed: int, keep_batches: int, keep_bytes: int) -> int:
    """Return the txid up to which batches may go. `sizes`: txid and bytes of what is kept of those up to `needed`, the
    newest first.

    >>> trim_until([(8, 10), (7, 10), (6, 10), (5, 10)], needed=8, keep_batches=3, keep_bytes=100)
    5
    >>> trim_until([(8, 10), (7, 10), (6, 10), (5, 10)], needed=8, keep_batches=3, keep_bytes=15)
    7
    """
    until, total = needed - min(keep_batches, len(sizes)), 0
    for txid, size in sizes[:keep_batches]:
        total += size
        if total > keep_bytes:
            return max(until, txid)
    return until


def compact(value: object) -> str:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"))
