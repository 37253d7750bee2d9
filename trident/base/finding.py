"""A finding of `trident doctor`: a fault of the environment, its effect, and the way out.

And the objects that report findings.
"""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

Now = Callable[[], float]
"""The clock of this machine, in seconds since 1970, with which others are compared."""

MOST_APART = 5.0
"""The most seconds by which two clocks may differ."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault, in words. No field has a secret in it.

    >>> Finding("port 8080", "another program listens there", "the server cannot start", "give another --port").grave
    True
    """

    about: str
    """The part of the environment that has the fault: a file, a server, a setting."""
    found: str
    matters: str
    """The effect of the fault on a topology."""
    todo: str
    """The way out."""
    grave: bool = True
    """True if a start fails or data may be lost; False for advice."""


@runtime_checkable
class Examined(Protocol):
    """A spout, a state, a log or the target of an output that can check its part of the environment."""

    def examine(self, now: Now = time.time) -> Iterable[Finding]:
        """Yield the faults that prevent a start. Change nothing in the system that is examined.

        It takes a few seconds at most, even if a server does not answer.
        """
        ...


def clocks_apart(about: str, theirs: float, now: Now) -> Iterable[Finding]:
    """Yield a finding if the clock of a server, just read, differs from that of this machine.

    >>> [finding.found for finding in clocks_apart("the server", 40.0, lambda: 100.0)]
    ["its clock is 60 s behind this machine's"]
    """
    apart = theirs - now()
    if abs(apart) > MOST_APART:
        yield Finding(
            about,
            f"its clock is {abs(apart):.0f} s {'ahead of' if apart > 0 else 'behind'} this machine's",
            "a batch has the time of the driver: expiry, windows of processing time and logs of both machines disagree",
            "Let a time service set the clocks of both machines (chrony, systemd-timesyncd)",
            grave=False,
        )
