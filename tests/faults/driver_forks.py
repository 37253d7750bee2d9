"""The test's side of the zygote: hand a driver over, arm it, and hear how it ended."""

import json
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.faults.drive import Case
from tests.faults.smallest_topology import Small
from tests.faults.steps import Fault

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class End:
    """How a driver ended: killed by a signal, or with a result or an error."""

    signal: int | None
    result: dict[str, dict[str, Any]] | None = None
    error: str | None = None
    trace: str = ""
    met: dict[str, int] = field(default_factory=dict)
    parts: dict[str, int] = field(default_factory=dict)


class Zygote:
    """One process that forks drivers."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.fork_server"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(timeout=30)

    def run(self, case: Case, crash: str = "") -> End:
        """Run one driver to its end, armed to be killed at `crash` (``point:count``)."""
        self._send({"case": asdict(case), "crash": crash})
        return self.end()

    def kill_twice(self, case: Case, point: str, again: int = 1) -> None:
        """Have a driver die at `point`, and the next one in its recovery, the `again`-th time that it is there; where
        it does not, it runs to its end."""
        assert self.run(case, point).signal == signal.SIGKILL
        second = self.run(case, f"{point.partition(':')[0]}:{again}")
        assert second.signal in (signal.SIGKILL, None), second.error

    def begin(self, small: Small, fault: Fault | None = None, crash: str = "") -> int:
        """Let a small driver run, whose disk fails as told; its process. `end` waits for it."""
        return self._send({"small": asdict(small), "fault": fault and asdict(fault), "crash": crash})

    def end(self) -> End:
        """How the driver ended."""
        answer = self._read()
        told = answer["told"] or {}
        return End(answer["signal"], **told)

    def _send(self, order: dict[str, Any]) -> int:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return int(self._read()["pid"])

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer
