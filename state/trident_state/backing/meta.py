"""The entry of a map that says whose it is and where it stands."""

import msgspec

from trident.base.attempt import Lease
from trident.base.errors import StateCorruptError
from trident_state.header import Header
from trident_state.store import GroupStatus, StateIdentity, StateKind, StateShape, StoreReport

FORMAT = 1


class Meta(Header, frozen=True, forbid_unknown_fields=True):
    """A state in a map: its fence (epoch and token), its marker, and the txid that is open while a batch is written."""

    values: str
    marker: int
    open: int | None

    @classmethod
    def founded(
        cls, identity: StateIdentity, shape: StateShape, kind: StateKind, values: str, lease: Lease, birth: int
    ) -> "Meta":
        """That of a new state."""
        whose = (identity.topology, identity.name, identity.log, shape.fingerprint, kind)
        return cls(FORMAT, *whose, lease.epoch, lease.token, values, birth, None)

    @property
    def report(self) -> StoreReport:
        return StoreReport(self.identity, self.fingerprint, self.kind, (self.status,))

    @property
    def status(self) -> GroupStatus:
        return GroupStatus(self.lease, self.marker, self.open)

    def held_by(self, lease: Lease) -> "Meta":
        """The same in another driver's hands, with nothing open."""
        return msgspec.structs.replace(self, epoch=lease.epoch, token=lease.token, open=None)

    def opened(self, txid: int) -> "Meta":
        return msgspec.structs.replace(self, open=txid)

    def committed(self, txid: int) -> "Meta":
        return msgspec.structs.replace(self, marker=txid, open=None)


def read_meta(text: bytes | None, where: str) -> Meta | None:
    """None where nothing is stored; StateCorruptError for what this version cannot read."""
    if text is None:
        return None
    try:
        found = msgspec.json.decode(text, type=Meta)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StateCorruptError(f"{where}: its meta entry cannot be read: {error}") from None
    if found.format != FORMAT:
        raise StateCorruptError(
            f"{where}: its meta entry has format {found.format}, this version reads format {FORMAT}; "
            f"use the version that wrote it, or reset the topology"
        )
    return found
