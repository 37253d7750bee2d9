"""The changes that an update makes to the entries of a memory store. They are computed before any entry is written."""

from functools import partial

import msgspec
import numpy as np
import pyarrow as pa

from trident_state.binary_arrays import in_halves, replace_rows
from trident_state.expiry import Expiry, without_expired
from trident_state.keys import encode_and_hash
from trident_state.memory.entries import Cells, Entries, Triples
from trident_state.memory.key_index import Hashes, Slots
from trident_state.state_shape import StateShape
from trident_state.store_messages import Update
from trident_state.value_rules import combined
from trident_state.write_checks import check_distinct_keys, check_none_later, check_update_types


class Change(msgspec.Struct, frozen=True):
    """The entries to write for an update, or for a part of it: key bytes, hashes, slots, and triples before and after.

    `values` are the values of all keys of the part after the update, including keys that need no write.
    """

    encoded: pa.Array
    hashes: Hashes
    slots: Slots
    before: Triples
    after: Triples
    values: pa.Array


def changes_of(
    update: Update, entries: Entries, shape: StateShape, expiry: Expiry, marker: int, where: str
) -> list[Change]:
    """Return the changes of an update: one for the whole update, or one for each part if one array cannot hold it."""
    check_update_types(where, shape, update)
    return list(in_halves(partial(_change, update, entries, shape, expiry, marker, where), 0, len(update.deltas)))


def _change(
    update: Update, entries: Entries, shape: StateShape, expiry: Expiry, marker: int, where: str, part: slice
) -> Change:
    keys, deltas = update.part(part)
    encoded, hashes = encode_and_hash(where, shape.keys, keys)
    check_distinct_keys(where, encoded, hashes, update.txid)
    slots = entries.index.keys.find(encoded, hashes)
    before = entries.take(slots)
    check_none_later(where, before.txids, marker, update.txid)
    stored = without_expired(entries.value.unpack(before.values), before.txids, expiry.cutoff)
    rows = np.flatnonzero(before.txids != update.txid)
    if len(rows) == len(slots):
        values = combined(shape.combine, stored, deltas, where)
        after = _triples_after(entries, before, values, update.txid, expiry.before)
        return Change(encoded, hashes, slots, before, after, values)
    # an earlier commit of this batch was interrupted: entries that it wrote stay; the others are written now
    indices = pa.array(rows)
    values = combined(shape.combine, stored.take(indices), deltas.take(indices), where)
    all_values = replace_rows(stored, rows, values)
    before = before[rows]
    after = _triples_after(entries, before, values, update.txid, expiry.before)
    return Change(encoded.take(indices), hashes[rows], slots[rows], before, after, all_values)


def _triples_after(entries: Entries, before: Triples, values: pa.Array, txid: int, expired: int) -> Triples:
    """Return the triples of keys after batch `txid` sets them to `values`.

    The value before becomes prev, unless it has expired because its txid is at or before `expired`.
    """
    prevs = before.values if entries.versioned else None
    if prevs is not None and expired > 0:
        prevs = Cells(prevs.data, prevs.valid & (before.txids > expired))
    return Triples(np.full(len(values), txid, np.int64), entries.value.pack(values), prevs)
