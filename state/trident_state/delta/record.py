"""The record of a state in its table: properties that are set once, and numbers that each version may change.

The properties say which state the table holds. The numbers are application versions (the action ``txn``), which Delta
also keeps in checkpoints; two concurrent commits cannot set the same one: the txid of the last batch (the marker), the
first txid that can be read, the epoch and the token of the driver that holds the state, the times by which values
expire, the number of compactions, the number of the file with the tags, and a checksum of the file list, which reveals
foreign versions, such as Delta's RESTORE.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from trident.base.attempt import Lease
from trident.base.discard_advice import RESTORE
from trident.base.errors import StateCorruptError, StateOwnedError
from trident.files.delta_numbers import PIECES, pieces_of, text_of
from trident_state.delta.data_files import DataFile
from trident_state.delta.tags import NO_TAGS, TagSet
from trident_state.expiry import Expiry
from trident_state.incarnation import Incarnation
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store_messages import GroupStatus, StoreReport

FORMAT = "1"
_PROPERTY = "trident."

MARKER, EPOCH, DROPPED, COMPACTIONS, FILES, KEPT = "", "epoch", "dropped", "compactions", "files", "kept"
TAGS = "tags"

ReadNumber = Callable[[str], int | None]


def application(part: str) -> str:
    """Return the application id whose version number holds a part of the record.

    >>> application(EPOCH), application(MARKER)
    ('trident/state:epoch', 'trident/state')
    """
    return f"trident/state:{part}" if part else "trident/state"


class TableVersion(msgspec.Struct, frozen=True):
    """The state as recorded in one version of its table."""

    version: int
    identity: StateIdentity
    fingerprint: str
    kind: StateKind
    rows: str
    """The kind of the rows (`trident_state.delta.folding`)."""
    birth: int
    lease: Lease
    marker: int
    dropped: bool
    compactions: int
    expiry: Expiry
    files: tuple[DataFile, ...]
    """The data files, in the order of their batches."""
    kept: int | None = None
    """The first txid as of which the state can be read, as cleaning last set it; None in an older table."""
    tags: TagSet = NO_TAGS
    """The txids that are kept by name, regardless of cleaning."""

    @property
    def kept_since(self) -> int:
        """The first txid as of which the state can be read."""
        # Not the txid of the empty table: the state may have had values before, with another shape or in an earlier
        # incarnation (guard "earlier txids, another shape").
        first = self.birth if self.birth == 0 else min(self.birth + 1, self.marker)
        return max(first, self.marker - 1 if self.kept is None else self.kept)

    @property
    def status(self) -> GroupStatus:
        """The status of the state's only group."""
        return GroupStatus(self.lease, None if self.dropped else self.marker, None)

    @property
    def report(self) -> StoreReport:
        """The report of the state; an empty one if it was dropped."""
        if self.dropped:
            return StoreReport(None, None, None, (GroupStatus(None, None, None),))
        return StoreReport(self.identity, self.fingerprint, self.kind, (self.status,), self.birth)

    @property
    def incarnation(self) -> Incarnation | None:
        """The incarnation of the state; None if it was dropped."""
        if self.dropped:
            return None
        return Incarnation(self.identity, self.birth, self.fingerprint, self.kind, self.lease.epoch)


def properties_of(identity: StateIdentity, shape: StateShape, kind: StateKind, rows: str, birth: int) -> dict[str, str]:
    """Return the properties of the table of a new state."""
    held = {
        "format": FORMAT,
        "topology": identity.topology,
        "state": identity.name,
        "log": identity.log,
        "batchGroup": identity.batchGroup,
        "fingerprint": shape.fingerprint,
        "kind": kind.value,
        "rows": rows,
        "birth": str(birth),
    }
    return {f"{_PROPERTY}{name}": value for name, value in held.items()}


def lease_numbers(lease: Lease) -> dict[str, int]:
    """Return the numbers that record a driver's lease."""
    token = {f"token{at}": number for at, number in enumerate(pieces_of("token", lease.token))}
    return {EPOCH: lease.epoch, **token}


def expiry_numbers(expiry: Expiry) -> dict[str, int]:
    """Return the numbers that record the expiry of values."""
    time, txid = (0, -1) if expiry.last is None else expiry.last
    held = {"cutoff": expiry.cutoff, "before": expiry.before, "shift": expiry.shift, "time": time, "last": txid + 1}
    held["marks"] = len(expiry.marks)
    for at, (time, txid) in enumerate(expiry.marks):
        held |= {f"time{at}": time, f"txid{at}": txid}
    return held


def changed_numbers(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """Return the numbers of `after` that differ from those of `before`; a missing number is 0."""
    return {part: number for part, number in after.items() if before.get(part, 0) != number}


def read_lease(number: ReadNumber, known: Lease | None) -> Lease:
    """Return the lease of the driver that holds the state. `known` is reused if it has the same epoch."""
    epoch = number(EPOCH) or 0
    if known is not None and known.epoch == epoch:
        return known
    return Lease(epoch, text_of([number(f"token{at}") or 0 for at in range(PIECES)]))


def read_expiry(number: ReadNumber) -> Expiry:
    """Return the recorded expiry of values."""
    last = (number("last") or 0) - 1
    if last < 0 and not number("cutoff"):
        return Expiry()
    marks = tuple((number(f"time{at}") or 0, number(f"txid{at}") or 0) for at in range(number("marks") or 0))
    time = None if last < 0 else (number("time") or 0, last)
    return Expiry(number("cutoff") or 0, number("before") or 0, time, marks, number("shift") or 0)


class StateProperties(msgspec.Struct, frozen=True):
    """The properties of a state's table, parsed."""

    identity: StateIdentity
    fingerprint: str
    kind: StateKind
    rows: str
    birth: int


def read_properties(held: Mapping[str, Any], where: str) -> StateProperties:
    """Return the properties of a state's table. Raises StateOwnedError if the table belongs to something else."""
    form = held.get(f"{_PROPERTY}format")
    if form is None:
        raise StateOwnedError(
            f"{where} cannot be kept there: the folder has a Delta table that is not a state. Nothing was changed; "
            "use another url"
        )
    if form != FORMAT:
        raise StateCorruptError(
            f"{where}: its table has format {form}, this version reads format {FORMAT}; use the version that wrote it, "
            f"or reset the topology"
        )
    try:
        texts = [held[f"{_PROPERTY}{name}"] for name in ("topology", "state", "log", "batchGroup")]
        fingerprint, kind, rows, birth = (held[f"{_PROPERTY}{n}"] for n in ("fingerprint", "kind", "rows", "birth"))
        return StateProperties(StateIdentity(*texts), fingerprint, StateKind(kind), rows, int(birth))
    except (KeyError, ValueError) as error:
        raise StateCorruptError(
            f"{where}: a property of its table is missing or damaged ({error}). {RESTORE}"
        ) from None
