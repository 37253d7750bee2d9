"""The identities of an attempt (txid, attempt number, epoch), of a driver's tenure (a lease), and of its holder."""

import datetime
import os
import socket

import msgspec


class TransactionAttempt(msgspec.Struct, frozen=True, order=True):
    """One try to compute a batch: the batch's txid, the number of the try, and the driver's epoch.

    A message about an attempt that is not the current one has no effect. Meaning:
    ``org.apache.storm.trident.topology.TransactionAttempt``, with the driver's epoch added.

    >>> str(TransactionAttempt(txid=5, attempt=2, epoch=1))
    '5:2'
    """

    txid: int
    attempt: int
    epoch: int = 0

    def __str__(self) -> str:
        return f"{self.txid}:{self.attempt}"


class Lease(msgspec.Struct, frozen=True):
    """One driver's tenure over a topology. Only the driver with the last lease may write to the log or to a store.

    `epoch` grows with every start. `token` is random: it distinguishes two drivers that claim the same epoch.
    """

    epoch: int
    token: str


class Holder(msgspec.Struct, frozen=True):
    """The driver that took a lease, as it describes itself in the log. Fencing does not depend on this description.

    `since`: when it took the lease, in seconds since 1970 by its clock. `leaseSecs`: it renews the lease more often
    than this, in seconds.
    """

    epoch: int
    host: str
    pid: int
    since: float
    leaseSecs: float

    @classmethod
    def here(cls, since: float, lease_secs: float) -> "Holder":
        """Return the description of this process; the log that it takes gives it the epoch."""
        return cls(0, socket.gethostname(), os.getpid(), since, lease_secs)

    def __str__(self) -> str:
        began = datetime.datetime.fromtimestamp(self.since, datetime.UTC)
        return f"process {self.pid} on {self.host}, since {began:%Y-%m-%d %H:%M:%S} UTC"
