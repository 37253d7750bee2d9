"""Markdown pages as programs: their Python blocks, run in order, as a reader would who copies them."""

import re
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
