"""What stands at the beginning of every stored state that is a document: whose it is, and which driver had it last."""

import msgspec

from trident.base.attempt import Lease
from trident_state.store import StateIdentity, StateKind


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first fields of a state's document, and its form as JSON."""

    format: int
    topology: str
    state: str
    log: str
    fingerprint: str
    kind: StateKind
    epoch: int
    token: str

    @property
    def identity(self) -> StateIdentity:
        return StateIdentity(self.topology, self.state, self.log)

    @property
    def lease(self) -> Lease:
        """Of the driver that wrote it."""
        return Lease(self.epoch, self.token)

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)
