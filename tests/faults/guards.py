"""Takes each guard of exactly-once out of a copy of the sources, one at a time, and shows which test notices.

python -m tests.faults.guards            all of them, as a Markdown table; ends non-zero if one goes unnoticed
python -m tests.faults.guards fence      those whose name begins so
"""

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.guard_list import GUARDS, Guard

ROOT = Path(__file__).parents[2]
COPIED = ("trident", "state", "spouts", "tests", "docs", "pyproject.toml", "README.md")
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
    """How pytest ends: 0 passed, 1 some failed. No bytecode: a file that changes back at once may keep its time."""
    command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *shlex.split(tests)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(str(folder / each) for each in ("", "state", "spouts"))}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, timeout=PATIENCE).returncode


def main(prefix: str) -> int:
    print("| without this guard | this could happen | noticed by |\n|---|---|---|")
    chosen = [guard for guard in GUARDS if guard.name.startswith(prefix)]
    unnoticed = 0
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(WORKERS) as threads:
        for guard, noticed in zip(chosen, threads.map(Copies(Path(folder)).notices, chosen), strict=True):
            unnoticed += not noticed
            by = f"`{guard.tests}`" if noticed else "**nothing**"
            print(f"| {guard.name} | {guard.prevents} | {by} |", flush=True)
    return 1 if unnoticed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else ""))
