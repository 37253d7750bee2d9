"""The last tuple of each key in a batch, for outputs that keep one row or message for each key."""

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from trident.base.change_kinds import adding
from trident_state.binary_arrays import one_chunk
from trident_state.keys import encode_keys


def last_of_keys(
    read: Callable[[], Iterable[pa.Table]], keys: Sequence[str], change: str | None, consolidated: bool
) -> Iterator[pa.Table]:
    """Yield the tuples of a batch that determine the results of their keys: the last of each key, in order.

    `read` returns the tables of the batch; it is called twice, so that a large batch need not be in memory. `change`
    is the field with the kind of a change. If the changes are `consolidated`, a tuple that adds a row prevails over
    those that remove one, since rows may exchange their keys within a batch.
    """
    encoded, adds = list[pa.Array](), list[npt.NDArray[np.bool_]]()
    for table in read():
        encoded += [one_chunk(encode_keys(table.select(list(keys))))]
        if change is not None and consolidated:
            adds.append(adding(one_chunk(table.column(change))).to_numpy(zero_copy_only=False))
    chosen = _last(encoded, np.concatenate(adds) if adds else None)
    start = 0
    for table in read():
        yield table.filter(pa.array(chosen[start : start + table.num_rows]))
        start += table.num_rows


def _last(encoded: Sequence[pa.Array], adds: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.bool_]:
    """Return for each tuple whether it is the last of its key; with `adds`, those that add a row come last."""
    kinds = {each.type for each in encoded}
    if len(kinds) > 1:
        encoded = [each.cast(pa.large_binary()) for each in encoded]
    rows = sum(map(len, encoded))
    chosen = np.zeros(rows, np.bool_)
    if rows:
        keys = pc.dictionary_encode(pa.chunked_array(encoded)).combine_chunks()
        order = np.arange(rows) if adds is None else np.argsort(adds, kind="stable")
        last = np.zeros(len(keys.dictionary), np.int64)
        last[keys.indices.to_numpy()[order]] = order  # of several tuples of a key the last one is kept
        chosen[last] = True
    return chosen
