"""The incarnation of a state, as its store shows it: a reader that stays open reads only the one that it opened."""

from dataclasses import dataclass, field

from trident.base.errors import StateEndedError, StateRecoveringError
from trident_state.state_shape import StateIdentity, StateKind


@dataclass(frozen=True)
class Incarnation:
    """One incarnation of a state: the data under its name between two drops.

    Two incarnations differ in the log, or in the txid after which they began (`birth`; None: the store does not tell
    it). Only if no batch came to the earlier one may both be equal; then the fingerprint or the kind tells whether what
    is stored now can be read as what was opened.
    """

    identity: StateIdentity
    birth: int | None
    fingerprint: str
    kind: StateKind
    epoch: int = field(compare=False)
    """The epoch of the driver that held the state when it was read. It grows with every drop and every driver."""

    def check(self, found: "Incarnation | None") -> None:
        """Refuse a read of another incarnation than this one, which was opened. None: the state, or a part, is gone.

        Raises StateEndedError if the state was dropped or reset. Raises StateRecoveringError if the store lost the
        state, or fell back to an earlier incarnation: its driver heals it, and then this one is there again.
        """
        if found == self:
            return
        where = f"state {self.identity.name!r} of topology {self.identity.topology!r}"
        if found is None:
            raise StateRecoveringError(
                f"{where}: a part of it is gone: its driver heals it when the topology next runs, unless it was dropped"
            )
        same_log = found.identity.log == self.identity.log
        if same_log and found.epoch < self.epoch:
            raise StateRecoveringError(
                f"{where}: its store was restored to a time before the drop; its driver heals it when the topology "
                f"next "
                f"runs"
            )
        raise StateEndedError(
            f"{where} was {'dropped' if same_log else 'dropped or reset'} while it was open, and was recreated "
            f"after txid {found.birth}: open it again; restart a topology that reads it"
        )
