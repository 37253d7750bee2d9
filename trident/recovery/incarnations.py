"""Whether what lies in a state's place is what this log's drivers left there, or of another life under the same name:
a store can fall back to before a drop or a reset."""

from trident.base.errors import LogMismatchError, StateLostError
from trident.log.protocol import Birth
from trident.recovery.settings import Settings
from trident_state.messages import StoreReport


def of_another_life(report: StoreReport, birth: Birth) -> bool:
    """Whether a part of it was last held before the state was born: it was dropped then, and its store fell back."""
    return any(group.lease is not None and group.lease.epoch < birth.epoch for group in report.groups)


def check_this_life(name: str, report: StoreReport, birth: Birth, settings: Settings) -> None:
    """Refuse to begin with what was dropped."""
    if of_another_life(report, birth):
        raise StateLostError(
            f"state {name!r} was dropped and began anew after txid {birth.txid}, and its store holds it as it was "
            f"before that: the store fell back. Restore it from a newer copy, or drop it again with "
            f"dropState({settings.name!r}, {name!r}, ...)"
        )


def check_this_log(name: str, report: StoreReport, uuid: str) -> None:
    """Refuse to heal what another log's drivers wrote: txids mean nothing across logs."""
    if report.identity is not None and report.identity.log != uuid:
        raise LogMismatchError(
            f"state {name!r} lies in its store as another log (uuid {report.identity.log}) left it, under a driver of "
            f"this one (uuid {uuid}): the store fell back to before a reset, or another one stands in its place. "
            f"Restore it from a newer copy, or give up log and states with topology.reset(name, checkpointLocation)"
        )
