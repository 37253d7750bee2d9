"""Translation of a script's refusal into an error of the state."""

from dataclasses import dataclass

from trident.base.attempt import Lease
from trident.base.discard_advice import RESTORE, reset_with
from trident.base.errors import (
    FencedError,
    LogMismatchError,
    StateBehindError,
    StateCorruptError,
    StateError,
    StateOwnedError,
    StateShapeError,
    StateUnavailableError,
)
from trident_state.redis.command_routing import Link, Reply
from trident_state.write_checks import fenced_error


@dataclass(frozen=True, slots=True)
class ScriptAnswer:
    """The answer of a script (answer.lua): a status, and fields of the group's meta hash that the script read."""

    status: str
    token: str
    epoch: str
    open: str
    marker: str
    detail: str

    @classmethod
    def of(cls, reply: list[bytes]) -> "ScriptAnswer":
        return cls(*[part.decode("utf-8", "replace") for part in reply])


def check_answer(link: Link, reply: Reply, lease: Lease, txid: int, where: str) -> None:
    """Raise the error of the server, or of the state if a script refused batch `txid` of the driver with `lease`."""
    link.check(reply)
    if reply[0] != b"OK":
        raise script_error(ScriptAnswer.of(reply), lease, txid, where)


def script_error(  # noqa: C901 (one table: a case per status)
    answer: ScriptAnswer, lease: Lease, txid: int, where: str
) -> StateError | FencedError | LogMismatchError:
    """Return the state's error for a script that refused batch `txid` of the driver with `lease`."""
    marker = int(answer.marker) if answer.marker.lstrip("-").isdigit() else -1
    match answer.status:
        case "FENCED":
            return fenced_error(where, answer.epoch, lease)
        case "OTHER":
            return LogMismatchError(
                f"{where}: another log (uuid {answer.detail}) has taken the state since this driver started: the "
                f"topology was reset, or another topology uses its name. This driver stops; nothing was written"
            )
        case "GONE":
            return StateBehindError(f"{where}: the server does not have this state (any longer)", -1)
        case "REWOUND":
            return StateBehindError(
                f"{where}: the server went back to epoch {answer.epoch} (this driver has {lease.epoch}) and txid "
                f"{marker}: it lost its last writes",
                marker,
            )
        case "BEHIND":
            return StateBehindError(
                f"{where}: the state is at txid {marker}, but txid {txid} can only follow {txid - 1}", marker
            )
        case "SHAPE":
            return StateShapeError(f"{where}: the state was recreated with a different number of buckets")
        case "AHEAD":
            return StateCorruptError(
                f"{where}: batch {txid} cannot be applied: a key was changed by a later batch, although the state is "
                f"only at txid {answer.marker}. {RESTORE}"
            )
        case "CORRUPT":
            return StateCorruptError(
                f"{where}: a key's stored value is not a record; batch {txid} cannot be applied. {RESTORE}"
            )
        case "EXISTS":
            return StateOwnedError(
                f"{where}: the state exists already (epoch {answer.epoch}, txid {answer.marker}); "
                f"{reset_with()} drops it"
            )
        case "COUNT":
            return StateCorruptError(
                f"{where}: cannot commit txid {txid}: {answer.detail} keys have this txid, but the batch has a "
                f"different number of keys, so an earlier attempt wrote different content. {RESTORE}"
            )
        case "CLOSED" | "CONFLICT":
            return StateUnavailableError(
                f"{where}: the server no longer expects writes of txid {txid} (it expects {answer.open or 'none'}); "
                f"the commit is repeated from its beginning"
            )
    return StateCorruptError(
        f"{where}: the script on the server returned the unknown status {answer.status!r}; start all drivers with one "
        f"version of the library"
    )
