"""The checks that every store makes before a write, so that all stores raise the same errors and messages.

`where` names the state; each message begins with `where`.
"""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.attempt import Lease
from trident.base.discard_advice import RESTORE
from trident.base.errors import (
    FencedError,
    StateBehindError,
    StateCorruptError,
    StateShapeError,
    StateValueError,
)
from trident_state.state_shape import StateShape
from trident_state.store_messages import Update


def check_newest(where: str, held: Lease | None, lease: Lease) -> None:
    """Raise FencedError if the state has a lease other than `lease` with the same or a higher epoch."""
    if held is not None and held != lease and held.epoch >= lease.epoch:
        raise fenced_error(where, str(held.epoch), lease)


def fenced_error(where: str, epoch: str, lease: Lease) -> FencedError:
    """Return the error for the driver with `lease` if the driver of epoch `epoch` has taken its state."""
    also = " too" if epoch == str(lease.epoch) else ""
    return FencedError(f"{where} belongs to the driver of epoch {epoch}, but this driver has epoch {lease.epoch}{also}")


def check_next_batch(where: str, held: Lease | None, marker: int, lease: Lease, txid: int) -> None:
    """Raise an error unless the state has this `lease`, and batch `txid` - 1 was its last one.

    Raises FencedError if another driver with the same or a higher epoch holds the state, otherwise StateBehindError.
    """
    check_newest(where, held, lease)
    if held != lease:
        raise StateBehindError(f"{where} was not acquired by the driver of epoch {lease.epoch}", marker)
    if marker < txid - 1:
        raise StateBehindError(f"{where} is at txid {marker}, so batch {txid} cannot be the next", marker)


def check_update_types(where: str, shape: StateShape, update: Update) -> None:
    """Raise an error if an update's values have the wrong type, or if it has not one value for each key."""
    if update.keys.num_rows != len(update.deltas) or update.deltas.type != shape.value:
        raise StateValueError(
            f"{where}: batch {update.txid} has {len(update.deltas)} values of type {update.deltas.type} "
            f"for {update.keys.num_rows} keys; the state has values of type {shape.value}"
        )


def check_none_later(where: str, txids: npt.NDArray[np.int64], marker: object, txid: int) -> None:
    """Raise an error if a batch after `txid` has changed a key of batch `txid`.

    `txids` are the stored txids of these keys.
    """
    if (last := int(txids.max(initial=-1))) > txid:
        raise StateCorruptError(
            f"{where}: batch {txid} cannot be applied: a key was changed by batch {last}, although the state is only "
            f"at txid {marker}. {RESTORE}"
        )


def check_unchanged_option(where: str, option: str, stored: str | None, declared: str) -> None:
    """Raise an error if the declared value of an option differs from the value with which the state was created."""
    if stored != declared:
        raise StateShapeError(
            f"{where} was created with {option}={stored}, but is declared with {option}={declared}; declare it as "
            f"before, or give the new state another name=, or drop this one (dropState: its values are lost, so "
            f"export them first), or reset the topology"
        )


def check_distinct_keys(where: str, encoded: pa.Array, hashes: npt.NDArray[np.uint64], txid: int) -> None:
    """Raise an error if a batch has two values for one key. `hashes` are the hashes of the keys in `encoded`."""
    ordered = np.sort(hashes)
    if (ordered[1:] == ordered[:-1]).any() and pc.count_distinct(encoded).as_py() < len(encoded):
        raise duplicate_key_error(where, txid)


def duplicate_key_error(where: str, txid: int) -> StateValueError:
    """Return the error for a batch that has two values for one key."""
    return StateValueError(f"{where}: batch {txid} has a key twice; nothing of it was applied")
