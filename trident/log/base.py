"""The base of both logs: the checks that they share, the texts of their errors, and the rule for a trim."""

import json
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from trident.base.attempt import Holder, Lease
from trident.base.discard_advice import reset_with
from trident.base.errors import FencedError, LogCorruptError, LogError
from trident.log.protocol import BatchRecord, StreamRecord
from trident_spouts.executor import Metadata


class LogBase:
    """The base of a log.

    `where` begins error messages; `location` is the argument of `topology.reset` that names this log.
    """

    def __init__(self, where: str, location: str, reading: bool) -> None:
        self._where, self._location, self._reading = where, location, reading

    def _check_writable(self) -> None:
        if self._reading:
            raise LogError(f"{self._where} was opened read-only and cannot be written")

    def _check_complete(self, group: str, waiting: Sequence[int], present: Sequence[object]) -> None:
        """Raise LogCorruptError if the content of a waiting batch is missing.

        `present`: for each batch, its stored content, false if it is missing.
        """
        for txid, is_present in zip(waiting, present, strict=True):
            if not is_present:
                raise self._corrupt(f"group {group!r} lacks the frozen results of batch {txid}")

    def _batch_record(self, group: str, txid: int, plan: str, time: float, outline: str, checksum: int) -> BatchRecord:
        """Return a batch's record from its stored fields. Raises LogCorruptError if the checksum does not match."""
        if batch_checksum(txid, plan, time, outline) != checksum:
            raise self._corrupt(f"group {group!r}: the checksum of the plan of batch {txid} does not match")
        return BatchRecord(self._json(plan), time, outline)

    def _stream_record(
        self, group: str, position: Metadata, source: str, active: bool, others: Sequence[Any]
    ) -> StreamRecord:
        """Return a stream's record from its stored fields. `others`: began, feeds, parted, former."""
        began, feeds, parted, former = others
        return StreamRecord(group, position, source, active, began, tuple(feeds), parted, tuple(former))

    def _json(self, text: str | bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise self._corrupt(f"a field is not JSON: {error}") from error

    def _corrupt(self, what: str) -> LogCorruptError:
        return LogCorruptError(
            f"{self._where} is damaged: {what}. Nothing was written. Restore it from a copy, "
            f"or discard log and states together with {reset_with(f'name, {self._location}')}"
        )

    def _holder(self, text: str | bytes, lease: Lease | None) -> Holder | None:
        """Return the holder of `lease` in the stored text; None if the text is missing or is about another lease."""
        if not text or lease is None or not lease.token:
            return None
        try:
            holder = msgspec.json.decode(text, type=Holder)
        except msgspec.DecodeError as error:
            raise self._corrupt(f"the holder of the lease cannot be read: {error}") from error
        return holder if holder.epoch == lease.epoch else None

    def _overtaken(self, epoch: int) -> FencedError:
        return FencedError(
            f"another driver (epoch {epoch}) has taken over {self._where} in the meantime; nothing was written"
        )

    def _other_format(self, format: str, ours: str) -> LogError:
        return LogError(
            f"{self._where} has the format {format!r}, but this version of the library reads {ours!r}: start the "
            f"topology with the version that wrote the log, or discard log and states together with "
            f"{reset_with(f'name, {self._location}')}. Nothing was written"
        )

    def _taken_over(self, epoch: int | str, lease: Lease) -> FencedError:
        return FencedError(
            f"{self._where} was taken over by another driver (epoch {epoch}; this driver has {lease.epoch}), and "
            f"this driver stops without writing"
        )


def holder_text(holder: Holder | None, epoch: int) -> str:
    """Return the text in which a log stores the holder of this epoch's lease."""
    return "" if holder is None else msgspec.json.encode(msgspec.structs.replace(holder, epoch=epoch)).decode()


def trim_until(sizes: Sequence[tuple[int, int]], needed: int, keep_batches: int, keep_bytes: int) -> int:
    """Return the txid up to which batches may be dropped.

    `needed`: the txid up to which no store needs the log. `sizes`: txid and bytes of each batch up to `needed` that the
    log still has, the newest first. Of these, the last `keep_batches` batches or the last `keep_bytes` bytes stay,
    whichever is less.

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


def batch_checksum(txid: int, plan: str, time: float, outline: str) -> int:
    """Return the checksum of a batch's record."""
    return zlib.crc32(f"{txid}|{time!r}|{plan}|{outline}".encode())


def compact(value: object) -> str:
    """Return a value as JSON text without spaces."""
    return json.dumps(value, separators=(",", ":"))
