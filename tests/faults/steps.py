"""I/O steps by name, counted as a run makes them, and the one fault that strikes at one of them."""

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

Mode = Literal["before", "half", "applied"]
"""Nothing of the step was done; a part of it; all of it, and nobody heard so."""

How = Literal["exception", "kill", "reset"]
"""What the driver meets: an error, SIGKILL, or a connection that is gone."""


@dataclass(frozen=True, slots=True)
class Fault:
    """The `occurrence`-th step called `name` fails. `part`: how many parts of it are done where it is done by half."""

    name: str
    occurrence: int
    mode: Mode
    how: How
    part: int = 0

    def __str__(self) -> str:
        part = f" ({self.part})" if self.mode == "half" else ""
        return f"{self.name} #{self.occurrence} {self.mode}{part} {self.how}"


class Injected(Exception):
    """An error out of nowhere, as a bug or a lack of memory would raise it."""


class Steps:
    """What a run did so far, and whether its fault has struck. Any thread."""

    def __init__(self, fault: Fault | None = None) -> None:
        self.fault = fault
        self.fired = False
        self.met: Counter[str] = Counter()
        self.parts: dict[str, int] = {}
        """Into how many parts each step falls, at most; 0 for one that changes nothing, and can only be refused."""
        self._lock = threading.Lock()

    def strikes(self, name: str, parts: int = 1) -> Fault | None:
        """Count a step that is about to be made; the fault, if it strikes there."""
        with self._lock:
            self.met[name] += 1
            self.parts[name] = max(parts, self.parts.get(name, 0))
            fault = self.fault
            if self.fired or fault is None or (fault.name, fault.occurrence) != (name, self.met[name]):
                return None
            self.fired = True
            return fault

    def step(
        self,
        name: str,
        do: Callable[[], Any],
        error: Callable[[], BaseException],
        half: Callable[[int], Any] | None = None,
        parts: int = 1,
    ) -> Any:
        """Make a step of this process: `half` does so many parts of it, `error` makes what is raised."""
        fault = self.strikes(name, parts)
        if fault is None:
            return do()
        if fault.mode == "applied":
            do()
        elif fault.mode == "half" and half is not None:
            half(fault.part)
        if fault.how == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise error()
