"""Markdown pages as programs: their Python blocks, run in order, as a reader would who copies them."""

import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

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
