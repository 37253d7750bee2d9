"""Due times: the times at which the value of a key must be processed even without new tuples for the key."""

import numpy as np
import pyarrow as pa


def first_ends(sessions: pa.Array) -> pa.Array:
    """Return for each list of open sessions the end of the first one, in microseconds since 1970.

    It is null for a key without an open session.
    """
    counts = sessions.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    ends = sessions.flatten().field("end").cast(pa.int64()).to_numpy(zero_copy_only=False)
    first = np.zeros(len(counts), np.int64)
    some = counts > 0
    if len(ends):
        starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
        first[some] = np.minimum.reduceat(ends, starts[some])
    return pa.array(first, mask=~some)
