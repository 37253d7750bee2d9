"""The header of a state stored as a document: its owner, its types, and the last driver that held it."""

import msgspec

from trident.base.attempt import Lease
from trident_state.state_shape import StateIdentity, StateKind


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first fields of a state's JSON document."""

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
        """The lease of the last driver that wrote the document."""
        return Lease(self.epoch, self.token)

    def encoded(self) -> bytes:
        return msgspec.json.encode(self)
