"""The record of attempts in the log: numbers that continue across restarts, and digests to compare replays with."""

import json
import threading
import zlib
from collections.abc import Mapping

from trident.base.attempt import Lease, TransactionAttempt
from trident.base.errors import SpoutContractError
from trident.compiler.program import Group
from trident.log.group_records import AttemptRecord, BatchPlan, History
from trident.log.protocol import TransactionLog
from trident.plan.nodes import Node
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

    def _check(self, attempt: TransactionAttempt, plan: BatchPlan, emissions: Mapping[Node, Emission | None]) -> None:
        known = self._digests.setdefault(attempt.txid, {})
        new = False
        for spout in self._group.spouts:
            emission = emissions[spout]
            digest = getattr(emission, "digest", None)
            if digest is None or spout.spout.kind is not SpoutKind.TRANSACTIONAL:
                continue
            name = _name(plan[spout.stream])
            before = known.get(spout.stream)
            if before is not None and before.startswith(f"{name}:") and before != f"{name}:{digest}":
                raise SpoutContractError(
                    f"{spout.step} ({spout.site.location}): attempt {attempt} emitted other tuples than an earlier one "
                    f"under the same metadata ({plan[spout.stream]!r:.200}); a transactional spout must emit the same "
                    f"again, else it is an opaque one. If the source was changed on purpose, start once more: nothing "
                    f"of the batch was frozen, and it is then planned anew"
                )
            new = new or before != f"{name}:{digest}"
            known[spout.stream] = f"{name}:{digest}"
        if new:
            self._record(attempt)

    def _record(self, attempt: TransactionAttempt) -> None:
        txid, digests = attempt.txid, self._digests.get(attempt.txid, {})
        if attempt.attempt < self._begun.get(txid, 0):  # a cancelled attempt that is late must not lower it
            return
        self._begun[txid] = attempt.attempt
        record = AttemptRecord(attempt.attempt, attempt.epoch, self._deaths.get(txid, 0), digests)
        self._log.attempted(self._lease, self._group.name, txid, record)


def _name(metadata: Metadata) -> str:
    """Return a checksum of a spout's metadata."""
    return f"{zlib.crc32(json.dumps(metadata, sort_keys=True).encode()):08x}"
