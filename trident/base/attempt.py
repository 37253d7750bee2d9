"""The identity of an attempt (txid, attempt number, epoch) and of a driver's tenure (a lease)."""

import msgspec


class TransactionAttempt(msgspec.Struct, frozen=True, order=True):
    """One try to compute a batch: the batch's txid, the number of the try, and the epoch of the driver that tries.

    A message about another attempt than the current one changes nothing.
    Meaning: ``org.apache.storm.trident.topology.TransactionAttempt``, with the driver's epoch added.

    >>> str(TransactionAttempt(txid=5, attempt=2, epoch=1))
    '5:2'
    """

    txid: int
    attempt: int
    epoch: int = 0

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt}"


class Lease(msgspec.Struct, frozen=True):
    """One driver's tenure over a topology. Only the driver with the last lease may write to the log or a store.

    `epoch` grows with every start. `token` is random: it tells apart two drivers that claim the same epoch.
    """

    epoch: int
    token: str
