"""One line of the result: a figure of ours, the other's, and what was promised."""

import operator
from dataclasses import asdict, dataclass
from typing import Any, Literal

Bound = Literal["at least", "at most"]


@dataclass(frozen=True)
class Row:
    """`ratio` is ours / other where there is another, and then it is what `target` bounds; else `ours` is.

    >>> Row("drpc.idle.p50", "a query", 1.2, None, "ms", 2.0, "at most").ok
    True
    >>> Row("words", "against x", 80.0, 100.0, "words/s", 0.9).ok
    False
    """

    id: str
    what: str
    ours: float
    other: float | None
    unit: str
    target: float | None
    bound: Bound = "at least"

    @property
    def ratio(self) -> float | None:
        return None if self.other is None else self.ours / self.other

    @property
    def ok(self) -> bool | None:
        """Return whether the target is met; None without a target."""
        if self.target is None:
            return None
        meets = operator.ge if self.bound == "at least" else operator.le
        return bool(meets(self.ours if self.ratio is None else self.ratio, self.target))

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data for the JSON report."""
        return {**asdict(self), "ratio": self.ratio, "ok": self.ok}
