"""The incarnation of a state, as its store shows it: an open reader reads only the incarnation that it opened."""

from dataclasses import dataclass, field

from trident.base.errors import StateEndedError, StateRecoveringError
from trident_state.state_shape import StateIdentity, StateKind


@dataclass(frozen=True)
class Incarnation:
    """One incarnation of a state: the data under its name between two drops.

    Two incarnations differ in the log, or in the txid after which they began (`birth`; None if the store does not know
    it). Both can be equal only if no batch was applied to the earlier incarnation; then the fingerprint and the kind
    show whether the stored state can be read like the opened state.
    """

    identity: StateIdentity
    birth: int | None
    fingerprint: str
    kind: StateKind
    epoch: int = field(compare=False)
    """The epoch of the driver that held the state when it was read. It grows with every drop and every driver."""

    def check(self, found: "Incarnation | None") -> None:
        """Raise an error unless `found`, the stored incarnation, equals this incarnation.

        None: the state, or a part of it, is missing.

        Raises StateEndedError if the state was dropped or reset. Raises StateRecoveringError if the store lost the
        state, or fell back to an earlier incarnation: its driver heals it, and the reads work again.
        """
        if found == self:
            return
        where = f"state {self.identity.name!r} of topology {self.identity.topology!r}"
        if found is None:
            raise StateRecoveringError(
                f"{where}: a part of the state is missing. Its driver restores it from the log when the topology "
                f"next runs, unless the state was dropped"
            )
        same_log = found.identity.log == self.identity.log
        if same_log and found.epoch < self.epoch:
            raise StateRecoveringError(
                f"{where}: its store was restored to a time before the state was dropped; its driver corrects that "
                f"when the topology next runs"
            )
        raise StateEndedError(
            f"{where} was {'dropped' if same_log else 'dropped or reset'} while it was open, and was recreated "
            f"after txid {found.birth}: open it again; restart a topology that reads it"
        )
