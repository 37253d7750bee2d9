"""Times as texts in ISO 8601."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(1024)  # answers show the time of the last commit again and again
def iso_time(seconds: float) -> str:
    """Return a time in seconds since 1970 in ISO 8601, in UTC.

    >>> iso_time(0.25)
    '1970-01-01T00:00:00.250Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
