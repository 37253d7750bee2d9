"""The log's record of attempts: numbers that continue across restarts, and digests to compare replays with."""

import json
import threading
import zlib
from collections.abc import Callable, Mapping
from typing import Any, cast

import pyarrow as pa

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.errors import SpoutContractError
from trident.compiler.program import Group
from trident.log.group_records import AttemptRecord, BatchPlan, History
from trident.log.protocol import TransactionLog
from trident.plan.nodes import Node, SpoutSource
from trident_spouts.digests import row_digest_of
from trident_spouts.executor import Emission, Metadata, SpoutKind


class Attempts:
    """The record of the attempts at one group's batches.

    Thread-safe, because two attempts at one batch may call it at once.
    """

    def __init__(self, group: Group, log: TransactionLog, lease: Lease, history: History) -> None:
        self._group, self._log, self._lease = group, log, lease
        self._deaths = {txid: last.deaths for txid, last in history.attempts.items()}
        self._digests = {txid: dict(last.digests) for txid, last in history.attempts.items()}
        """For each txid and stream: ``<checksum of the metadata>:<digest of the tuples that were emitted for this
        metadata>``."""
        self._begun = dict[int, int]()
        """The number of the newest attempt at each batch. A cancelled attempt may be recorded after a newer one."""
        self._lock = threading.Lock()

    def begin(self, attempt: TransactionAttempt) -> None:
        """Record an attempt. It must be called before anything of the attempt is emitted.

        So the next attempt has another number, even after a crash.
        """
        with self._lock:
            self._record(attempt)

    def forget(self, txid: int) -> None:
        """Forget the attempts at batches up to `txid`, the last committed batch."""
        with self._lock:
            for by_txid in (self._digests, self._begun):
                for committed in [other for other in by_txid if other <= txid]:
                    del by_txid[committed]

    def check(self, attempt: TransactionAttempt, plan: BatchPlan, emissions: Mapping[Node, Emission | None]) -> None:
        """Record the digests of the tuples that transactional spouts emitted by value.

        Raises SpoutContractError if a spout emitted other tuples for the same metadata in an earlier attempt.
        """
        with self._lock:
            self._check(attempt, plan, emissions)

    def witnessed(self, attempt: TransactionAttempt, plan: BatchPlan, source: Node, emission: Emission) -> Emission:
        """Return the emission. If it is a reference, its rows are compared when this process reads them.

        The first attempt's rows are recorded even if the attempt fails later (guard "attempts, rows by reference").
        """
        (spout,) = [spout for spout in self._group.spouts if spout is source]
        by_value = getattr(emission, "digest", None) is not None or getattr(emission, "verified", False)
        if by_value or spout.spout.kind is not SpoutKind.TRANSACTIONAL:
            return emission

        def note(table: pa.Table) -> None:
            with self._lock:
                if self._compare(attempt, plan, spout, row_digest_of(table)):
                    self._record(attempt)

        return cast(Emission, _Witnessed(emission, note))

    def _check(self, attempt: TransactionAttempt, plan: BatchPlan, emissions: Mapping[Node, Emission | None]) -> None:
        digests = {spout: getattr(emissions[spout], "digest", None) for spout in self._group.spouts}
        given = {spout: d for spout, d in digests.items() if d and spout.spout.kind is SpoutKind.TRANSACTIONAL}
        if any([self._compare(attempt, plan, spout, digest) for spout, digest in given.items()]):
            self._record(attempt)

    def _compare(self, attempt: TransactionAttempt, plan: BatchPlan, spout: SpoutSource, digest: str) -> bool:
        """Compare a spout's tuples with those of an earlier attempt, and record their digest. Return whether it is new.

        Raises SpoutContractError if the digest differs from the recorded one for the same metadata.
        """
        known = self._digests.setdefault(attempt.txid, {})
        name = _name(plan[spout.stream])
        before = known.get(spout.stream)
        if before is not None and before.startswith(f"{name}:") and before != f"{name}:{digest}":
            raise SpoutContractError(
                f"{spout.step} ({spout.site.location}): attempt {attempt} emitted different tuples than an earlier "
                f"attempt with the same metadata ({plan[spout.stream]!r:.200}); a transactional spout must emit the "
                f"same tuples again (otherwise declare it opaque). If the source was changed on purpose, restart: "
                f"nothing of the batch was frozen, so it is planned again"
            )
        known[spout.stream] = f"{name}:{digest}"
        return before != f"{name}:{digest}"

    def _record(self, attempt: TransactionAttempt) -> None:
        txid, digests = attempt.txid, self._digests.get(attempt.txid, {})
        if attempt.attempt < self._begun.get(txid, 0):  # a late, cancelled attempt must not lower the number
            return
        self._begun[txid] = attempt.attempt
        record = AttemptRecord(attempt.attempt, attempt.epoch, self._deaths.get(txid, 0), digests)
        self._log.attempted(self._lease, self._group.name, txid, record)


class _Witnessed:
    """An emission by reference. `note` gets its rows when this process reads them."""

    def __init__(self, emission: Emission, note: Callable[[pa.Table], None]) -> None:
        self._emission, self._note = emission, note

    def arrow(self) -> pa.Table:
        table = self._emission.arrow()
        self._note(table)
        return table

    def __getattr__(self, name: str) -> Any:
        return getattr(self._emission, name)


def _name(metadata: Metadata) -> str:
    """Return a checksum of a spout's metadata, which identifies the metadata in records."""
    return f"{zlib.crc32(json.dumps(metadata, sort_keys=True).encode()):08x}"
