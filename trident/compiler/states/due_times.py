"""Due times: the times at which the value of a key must be processed even without new tuples for the key."""

from collections.abc import Callable, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from trident.operations.timers import AT, TIMERS
from trident.plan.states import Dues
from trident_state.binary_arrays import one_chunk


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


def first_timers(records: pa.Array) -> pa.Array:
    """Return for each record the time of its first timer, in microseconds since 1970. It is null without timers."""
    timers = pc.struct_field(one_chunk(records), TIMERS)
    counts = timers.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    times = timers.flatten().field(AT)
    some = counts > 0
    rows = np.where(some, np.concatenate([[0], np.cumsum(counts)[:-1]]) if len(counts) else 0, -1)
    return times.take(pa.array(rows, pa.int64(), mask=~some)) if len(times) else pa.nulls(len(counts), pa.int64())


DUES: Mapping[Dues, Callable[[pa.Array], pa.Array]] = {"sessions": first_ends, "timers": first_timers}
"""The function that returns the due time of each value, by the part of the value that holds due times."""
