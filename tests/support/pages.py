"""Markdown pages as programs: their Python blocks, run in order, as a reader would who copies them.

Also what a page names: tests, and places on pages."""

import ast
import re
import signal
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]

_BLOCK = re.compile(r"^```python\n(.*?)^```$", flags=re.MULTILINE | re.DOTALL)


def program_of(page: Path) -> str:
    """Return the page's Python blocks as one program; each line keeps its number, so that errors point to the page."""
    text = page.read_text(encoding="utf-8")
    lines = [""] * text.count("\n")
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        for number, line in enumerate(block[1].splitlines()):
            lines[first + number] = line
    return "\n".join(lines)


def blocks_of(page: Path) -> list[str]:
    """Return the page's Python blocks, each by itself."""
    return [block[1] for block in _BLOCK.finditer(page.read_text(encoding="utf-8"))]


_TEST = re.compile(r"`((?:tests|trident/testing)/[\w/]+\.py)::(\w+)`")


def named_tests(text: str) -> list[tuple[str, str]]:
    """Return the tests that a page names as `path::function`: the file and the function of each."""
    return _TEST.findall(text)


def absent_tests(text: str) -> list[str]:
    """Return those of the tests that a page names which do not exist."""
    return [f"{path}::{name}" for path, name in named_tests(text) if name not in _tests_of(path)]


@cache
def _tests_of(path: str) -> set[str]:
    """The test functions of a file, those in its classes too; none if there is no such file."""
    file = ROOT / path
    tree = ast.parse(file.read_text(encoding="utf-8") if file.exists() else "")
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}


@cache
def anchors_of(page: Path) -> set[str]:
    """Return the anchors that the site and code hosts make of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower()) for title in titles}


def run_page(page: Path, **replaced: str) -> None:
    """Run a page's program as ``__main__``; `replaced` maps texts to others, such as a server's url."""
    program = program_of(page)
    for old, new in replaced.items():
        program = program.replace(old, new)
    exec(compile(program, str(page), "exec"), {"__name__": "__main__"})


_STEP = re.compile(
    r"^```python\n# (?P<file>[\w./]+)\n(?P<source>.*?)^```$|^```console\n(?P<session>.*?)^```$",
    flags=re.MULTILINE | re.DOTALL,
)


def run_session(text: str, folder: Path, environment: Mapping[str, str], **replaced: str) -> int:
    """Do in `folder` what a page says: write the files that it shows, run its commands, compare what they print.

    A Python block whose first line is a comment with a file's name is that file. In a block of the language console
    each line behind ``$`` is a command of a shell; the lines behind it are its output, which ends with "Killed" if the
    command was killed. `replaced` maps texts to others, such as a server's url. Returns the number of commands.
    """
    for old, new in replaced.items():
        text = text.replace(old, new)
    commands = 0
    for step in _STEP.finditer(text):
        if step["file"]:
            (folder / step["file"]).write_text(step["source"], encoding="utf-8")
            continue
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", step["session"], flags=re.MULTILINE):
            ran = subprocess.run(
                ["bash", "-c", f"{command}\nexit $?"],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
            )
            killed = "Killed\n" if ran.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL) else ""
            assert ran.stdout + killed == expected, f"$ {command}\n{ran.stdout}{killed}\n{ran.stderr}"
            assert killed or ran.returncode == 0, f"$ {command}\n{ran.stderr}"
            commands += 1
    return commands
