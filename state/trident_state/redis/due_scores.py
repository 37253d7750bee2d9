"""Due times as the scores of a sorted set, which are doubles."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def scores(dues: pa.Array) -> bytes:
    """Return due times (microseconds since 1970) as packed doubles, as the scripts take them; NaN for null.

    Not every time after the year 2255 is a double. Such a time is rounded down: its key is found some microseconds too
    early, never too late.

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


def _at_most(times: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return for each time the greatest double that is not greater."""
    nearest = times.astype(np.float64)
    greater = nearest.astype(np.int64) > times
    return np.where(greater, np.nextafter(nearest, -np.inf), nearest)
