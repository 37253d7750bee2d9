"""The size limit for a checkpoint that a user's operation or spout returns.

The checkpoint is stored with every batch.
"""

MOST_BYTES = 64 << 10
"""The most bytes of a checkpoint, as JSON."""

WAY_OUT = "Store the checkpoint elsewhere in commit(txid, checkpoint), and return its key"


def too_large(checkpoint: str) -> str | None:
    """Return why a checkpoint, given as JSON, is too large; None if its size is accepted.

    >>> too_large('"' + "x" * 65536 + '"')
    'of 65538 bytes, the limit is 65536'
    """
    size = len(checkpoint.encode())
    return None if size <= MOST_BYTES else f"of {size} bytes, the limit is {MOST_BYTES}"
