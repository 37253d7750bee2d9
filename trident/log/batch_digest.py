"""The digest of a batch in the log, with which a reader checks that the log still has the batch it read.

A txid identifies a batch only within one history of the log. A log that is restored from an older copy continues with
other batches under the same txids, and has the same uuid.
"""

import hashlib
import json

from trident.log.protocol import LogReading


def batch_digest(log: LogReading, group: str, txid: int) -> str | None:
    """Return the digest of a frozen batch's record; None if the log does not have the batch.

    The record contains the time of the plan, so batches of two histories have different records.
    """
    record = log.batch(group, txid) if txid > 0 else None
    if record is None:
        return None
    text = json.dumps([txid, repr(record.time), record.plan, record.outline], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_other_batch(log: LogReading, group: str, txid: int, digest: str | None) -> bool:
    """Return whether the log's batch under this txid has a different digest.

    False if there is no evidence: the digest is None, or the log does not keep the batch.
    """
    now = None if digest is None else batch_digest(log, group, txid)
    return now is not None and now != digest
