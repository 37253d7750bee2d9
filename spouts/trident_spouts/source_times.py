"""The times that a source gave its tuples, as spans: when a message was sent, or a row was due."""

import logging
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy
import pyarrow as pa
from numpy.typing import NDArray

logger = logging.getLogger("trident.spouts")

MOST_SPANS = 64
"""The most spans of separately recorded times. Otherwise a span covers neighbours among the sorted times."""


class SourceSpan(NamedTuple):
    """Tuples of a batch whose source times are spread evenly between two times, in seconds since 1970.

    >>> SourceSpan(oldest=10.0, newest=12.0, tuples=3)
    SourceSpan(oldest=10.0, newest=12.0, tuples=3)
    """

    oldest: float
    newest: float
    tuples: int

    @classmethod
    def at(cls, time: float, tuples: int) -> tuple["SourceSpan", ...]:
        """Return the span of tuples with one time; nothing without tuples."""
        return (cls(time, time, tuples),) if tuples else ()


def divided(parts: Sequence[tuple[float, int]], rows: int | None) -> list[SourceSpan]:
    """Return spans for the parts of a batch, each with a time and a share of the rows in proportion to its bytes.

    Nothing is returned if the number of rows is not known.

    >>> [span.tuples for span in divided([(1.0, 10), (2.0, 30)], 8)]
    [2, 6]
    """
    size, ends = sum(part for _, part in parts), [0]
    for _, part in parts if rows and size else ():
        ends.append(ends[-1] + part)
    counts = [(rows or 0) * end // (size or 1) for end in ends]
    return [
        span
        for at, (time, _) in enumerate(parts[: len(ends) - 1])
        for span in SourceSpan.at(time, counts[at + 1] - counts[at])
    ]


def checked_span(span: SourceSpan) -> SourceSpan:
    """Return a span from another spout. Raises ValueError or TypeError unless it has two times and tuples."""
    oldest, newest, tuples = span
    if not (math.isfinite(oldest) and math.isfinite(newest) and oldest <= newest and tuples > 0):
        raise ValueError(f"{span!r}: expected two times in seconds since 1970, the oldest first, and tuples > 0")
    return SourceSpan(oldest, newest, tuples)


def known_times(emission: Any, where: str) -> tuple[SourceSpan, ...]:
    """Return the valid times of an emission. Invalid times are logged and dropped: no batch depends on them."""
    try:
        return tuple(checked_span(span) for span in getattr(emission, "source_times", ()))
    except Exception:
        logger.warning("%s: its source_times are left out", where, exc_info=True)
        return ()


def spans_of(times: pa.ChunkedArray) -> tuple[SourceSpan, ...]:
    """Return the spans of timestamps in microseconds, all with the same number of tuples.

    >>> spans_of(pa.chunked_array([pa.array([3_000_000, 1_000_000], pa.timestamp("us", "UTC"))]))
    (SourceSpan(oldest=1.0, newest=1.0, tuples=1), SourceSpan(oldest=3.0, newest=3.0, tuples=1))
    """
    seconds: NDArray[Any] = numpy.sort(times.drop_null().cast(pa.int64()).to_numpy()) / 1_000_000
    parts = numpy.array_split(seconds, min(MOST_SPANS, len(seconds)) or 1)
    return tuple(SourceSpan(float(part[0]), float(part[-1]), len(part)) for part in parts if len(part))
