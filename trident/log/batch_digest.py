"""The digest of a batch in the log, by which a reader knows that it is still the batch that it read.

A txid says which batch it is only within one history. A log that is restored from an older copy continues with other
batches under the same txids, and has the same uuid.
"""

import hashlib
import json

from trident.log.protocol import LogReading


def batch_digest(log: LogReading, group: str, txid: int) -> str | None:
    """Return the digest of a frozen batch's record; None if the log does not have the batch.

    The record has the time of the plan, in which the batches of two histories differ.
    """
    record = log.batch(group, txid) if txid > 0 else None
    if record is None:
        return None
    text = json.dumps([txid, repr(record.time), record.plan, record.outline], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def is_other_batch(log: LogReading, group: str, txid: int, digest: str | None) -> bool:
    """Return whether the log has another batch under this txid than the one with the digest.

    False if there is no evidence: the digest is None, or the log does not keep the batch.
    """
    now = None if digest is None else batch_digest(log, group, txid)
    return now is not None and now != digest
