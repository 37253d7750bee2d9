"""Takes each guard of exactly-once out of a copy of the sources, one at a time, and shows which test notices.

python -m tests.faults.guards            all of them, as a Markdown table; ends non-zero if one goes unnoticed
python -m tests.faults.guards fence      those whose name begins so
python -m tests.faults.guards --minutes 3 --seed 7    some, drawn from that seed, until the time is over
"""

import argparse
import os
import random
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.guard_list import GUARDS, Guard

ROOT = Path(__file__).parents[2]
COPIED = ("trident", "trident_client", "state", "spouts", "tests", "docs", "pyproject.toml", "README.md")
WORKERS = 2
PATIENCE = 300.0
"""Seconds that the tests of one guard may take."""


class Copies:
    """A copy of the sources for each thread, and which tests were seen to pass over them as they are."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mine = threading.local()
        self._passed: dict[str, bool] = {}

    def notices(self, guard: Guard) -> bool:
        """Whether the tests of this guard pass with it and fail without it."""
        copy = self._copy()
        if not self._passed.get(guard.tests):
            assert _ends(guard.tests, copy) == 0, f"{guard.tests}: fails as it is, or there is none"
            self._passed[guard.tests] = True
        path = copy / guard.file
        whole = path.read_text()
        path.write_text(mutant(guard, whole))
        try:
            return _ends(guard.tests, copy) == 1
        finally:
            path.write_text(whole)

    def _copy(self) -> Path:
        if not hasattr(self._mine, "folder"):
            self._mine.folder = Path(tempfile.mkdtemp(dir=self._folder))
            for name in COPIED:
                if (ROOT / name).is_dir():
                    ignored = shutil.ignore_patterns("__pycache__")
                    shutil.copytree(ROOT / name, self._mine.folder / name, ignore=ignored)
                else:
                    shutil.copy(ROOT / name, self._mine.folder / name)
        return Path(self._mine.folder)


def mutant(guard: Guard, source: str) -> str:
    """The file without the guard."""
    for text, left in [(guard.text, guard.without), *([guard.also] if guard.also else [])]:
        assert source.count(text) == 1, f"{guard.name}: its text stands {source.count(text)} times in {guard.file}"
        source = source.replace(text, left)
    return source


def _ends(tests: str, folder: Path) -> int:
    """How pytest ends: 0 passed, 1 some failed. No bytecode: a file that changes back at once may keep its time.

    A guard's test may be a soak.
    """
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *shlex.split(tests)]
    paths = os.pathsep.join(str(folder / each) for each in ("", "state", "spouts"))
    environment = os.environ | {"PYTHONPATH": paths, "SOAK_MINUTES": "0"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=PATIENCE).returncode


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.guards", description="Takes out guard by guard.")
    parser.add_argument("prefix", nargs="?", default="", help="how the guards' names begin (all)")
    parser.add_argument("--minutes", type=float, help="begin no other one then")
    parser.add_argument("--seed", type=int, help="draw their order from this number")
    asked = parser.parse_args()
    chosen = [guard for guard in GUARDS if guard.name.startswith(asked.prefix)]
    if asked.seed is not None:
        random.Random(asked.seed).shuffle(chosen)
    return table(chosen, None if asked.minutes is None else time.monotonic() + 60 * asked.minutes)


def table(chosen: list[Guard], until: float | None = None) -> int:
    """Print what notices each of these; 1 if nothing notices one."""
    print("| without this guard | this could happen | noticed by |\n|---|---|---|")
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as threads:
        copies = Copies(Path(folder))

        def noticed(guard: Guard) -> bool | None:
            late = until is not None and time.monotonic() > until and guard is not chosen[0]
            return None if late else copies.notices(guard)

        for guard, found in zip(chosen, threads.map(noticed, chosen), strict=True):
            if found is not None:
                unnoticed += not found
                by = f"`{guard.tests}`" if found else "**nothing**"
                print(f"| {guard.name} | {guard.prevents} | {by} |", flush=True)
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
