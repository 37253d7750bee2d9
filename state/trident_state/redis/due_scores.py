"""Due times as the scores of a sorted set, which are doubles."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def scores(dues: pa.Array) -> bytes:
    """Return due times (microseconds since 1970) as packed doubles, as the scripts take them; NaN for null.

    Not every time after the year 2255 is a double. Such a time is rounded down: the set finds its key some microseconds
    too early, never too late, and `DueIndex` compares the exact time.

    >>> import struct
    >>> struct.unpack("<2d", scores(pa.array([5, None])))
    (5.0, nan)
    """
    rounded = _at_most(dues.fill_null(0).to_numpy(zero_copy_only=False))
    rounded[dues.is_null().to_numpy(zero_copy_only=False)] = np.nan
    return rounded.astype("<f8").tobytes()


def score(time: int) -> bytes:
    """Return the score of a time, as an argument of a command.

    >>> score(1_700_000_000_000_001)
    b'1700000000000001'
    """
    return b"%.17g" % _at_most(np.array([time], np.int64))[0]


def is_exact(score: float) -> bool:
    """Return whether a score is the score of one time only.

    >>> is_exact(1_700_000_000_000_001.0), is_exact(2.0**53)
    (True, False)
    """
    return abs(score) < 2**53


def shared_score(until: int) -> float | None:
    """Return the score of `until` if later times have the same score; None if no time after `until` has it.

    Several times share a score, because it is a double. A key with a lower score is due; a key with this score may be
    due at `until` or later.

    >>> shared_score(1_700_000_000_000_001), shared_score(2**53)
    (None, 9007199254740992.0)
    """
    own, later = _at_most(np.array([until, until + 1], np.int64)).tolist()
    return own if own == later else None


def _at_most(times: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return for each time the greatest double that is not greater."""
    nearest = times.astype(np.float64)
    greater = nearest.astype(np.int64) > times
    return np.where(greater, np.nextafter(nearest, -np.inf), nearest)
