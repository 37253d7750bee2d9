"""The test's side of the zygote: hand a driver over, arm it, and hear how it ended."""

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.faults.drive import Case

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class End:
    """How a driver ended: killed by a signal, or with a result or an error."""

    signal: int | None
    result: dict[str, dict[str, int]] | None = None
    error: str | None = None
    trace: str = ""


class Zygote:
    """One process that forks drivers."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.zygote"],
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
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps({"case": asdict(case), "crash": crash}) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        told = answer["told"] or {}
        return End(answer["signal"], told.get("result"), told.get("error"), told.get("trace", ""))
