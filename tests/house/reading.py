"""Draw lines, file names and docstrings for a reading test: python -m tests.house.reading [--seed N].

Prints 20 source lines, 30 file names and 40 docstrings of the library, drawn at random, for the reading test: somebody
who has never seen the code says of each what it means, and is then shown the place. What is guessed wrong is renamed.
"""

import argparse
import ast
import random
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT, library

LINES, FILES, DOCSTRINGS = 20, 30, 40


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.reading", description="Draw what strangers shall read."
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other ones (0)")
    chance = random.Random(parser.parse_args().seed)
    paths = sorted(library().values())
    drawn = {
        "Source lines": chance.sample([line for path in paths for line in statement_lines(path)], LINES),
        "File names": chance.sample([place(path) for path in paths if path.name != "__init__.py"], FILES),
        "Docstrings": chance.sample([doc for path in paths for doc in docstrings(path)], DOCSTRINGS),
    }
    for title, texts in drawn.items():
        print(f"\n{title}\n")
        for number, text in enumerate(texts, 1):
            print(f"{number:2}  {text}")


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def statement_lines(path: Path) -> Iterator[str]:
    """Yield the first line of each statement of a file that is no import and no docstring, with its place."""
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.walk(ast.parse(source)):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom) and not text:
            yield f"{lines[node.lineno - 1].strip()}\n      {place(path)}:{node.lineno}"


def docstrings(path: Path) -> Iterator[str]:
    """Yield the first paragraph of each docstring of a file, with the name that it belongs to."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text:
                name = "(module)" if isinstance(node, ast.Module) else node.name
                yield f"{' '.join(text.split(chr(10) * 2)[0].split())}\n      {place(path)}: {name}"


if __name__ == "__main__":
    main()
