"""The limits of one SQL query."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from trident.base.argument_checks import check_whole_number
from trident.base.durations import Duration, read_seconds
from trident.base.errors import SqlError, SqlTimeoutError

LEAST_BYTES = 16 << 20

MOST_TEXT = 50_000
"""The most characters of a query."""


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """The limits of one query: its seconds, the rows of its result, and the bytes of memory.

    `maxBytes` applies to the states that the query reads, and again to the query's work with its result.
    """

    seconds: float = 30.0
    maxRows: int = 1_000_000
    maxBytes: int = 1 << 30

    @classmethod
    def of(cls, timeout: Duration, maxRows: int, maxBytes: int) -> "SqlLimits":
        """Return the limits that a caller gave. Raises SqlError if one of them is not a valid number."""
        return cls(
            float(read_seconds("timeout", timeout, error=SqlError)),
            check_whole_number("maxRows", maxRows, error=SqlError),
            check_whole_number("maxBytes", maxBytes, LEAST_BYTES, error=SqlError),
        )


@dataclass(slots=True)
class Deadline:
    """The end of a query's time. `also`: a check of the caller, which may raise an error to end the query earlier."""

    limits: SqlLimits
    also: Callable[[], None]
    began: float = field(default_factory=time.monotonic)

    def check(self) -> None:
        """Raise SqlTimeoutError if the query has used up its time, or the error of the caller's check."""
        self.also()
        if time.monotonic() - self.began > self.limits.seconds:
            raise SqlTimeoutError(
                f"the query was ended after {self.limits.seconds:g} s, its time limit: simplify it, or raise the "
                "limit with timeout="
            )
