"""The meta entry of a user's map: the identity of the map's state, and the state's fence, marker and open record."""

import msgspec

from trident.base.attempt import Lease
from trident.base.discard_advice import RESTORE
from trident.base.errors import StateCorruptError
from trident_state.document_header import Header
from trident_state.incarnation import Incarnation
from trident_state.state_shape import StateIdentity, StateKind, StateShape
from trident_state.store_messages import GroupStatus, StoreReport

FORMAT = 2


class Meta(Header, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The meta entry of a map, with the state's fence (`epoch`, `token`), `marker` and open record (`open`).

    `values` is the form of the records, "packed" or "json". `birth` is the txid after which the state began.
    `dropping`: a drop of the state has begun, so some of its entries may be gone; the marker is -1 then, below every
    txid.
    """

    values: str
    marker: int
    open: int | None
    birth: int
    dropping: bool = False

    @classmethod
    def created(
        cls, identity: StateIdentity, shape: StateShape, kind: StateKind, values: str, lease: Lease, birth: int
    ) -> "Meta":
        """Return the meta entry of a new state that begins after txid `birth`."""
        owner = (identity.topology, identity.name, identity.log, shape.fingerprint, kind)
        return cls(FORMAT, *owner, lease.epoch, lease.token, values, birth, None, birth)

    @property
    def report(self) -> StoreReport:
        return StoreReport(self.identity, self.fingerprint, self.kind, (self.status,), self.birth)

    @property
    def incarnation(self) -> Incarnation:
        return Incarnation(self.identity, self.birth, self.fingerprint, self.kind, self.epoch)

    @property
    def status(self) -> GroupStatus:
        """The status of the state's only group. The group has no marker after a drop of the state has begun."""
        return GroupStatus(self.lease, None if self.dropping else self.marker, self.open)

    def held_by(self, lease: Lease) -> "Meta":
        """Return the entry with `lease` as the fence, and without an open record."""
        return msgspec.structs.replace(self, epoch=lease.epoch, token=lease.token, open=None)

    def opened(self, txid: int) -> "Meta":
        return msgspec.structs.replace(self, open=txid)

    def committed(self, txid: int) -> "Meta":
        return msgspec.structs.replace(self, marker=txid, open=None)

    def dropped_by(self, lease: Lease | None) -> "Meta":
        """Return the entry of a state that is being dropped, with `lease` as the fence if it is given."""
        held = self if lease is None else self.held_by(lease)
        return msgspec.structs.replace(held, marker=-1, open=None, dropping=True)


def read_meta(text: bytes | None, where: str) -> Meta | None:
    """Return the meta entry in `text`; None if `text` is None, because the map has no meta entry.

    Raises StateCorruptError if this version of the library cannot read the entry.
    """
    if text is None:
        return None
    try:
        meta = msgspec.json.decode(text, type=Meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateCorruptError(f"{where}: its meta entry cannot be read: {error}. {RESTORE}") from None
    if meta.format != FORMAT:
        raise StateCorruptError(
            f"{where}: its meta entry has format {meta.format}, this version reads format {FORMAT}; "
            f"use the version that wrote it, or reset the topology"
        )
    return meta
