"""Draw lines, file names and docstrings for a reading test: python -m tests.house.reading [--seed N] [--places].

Prints 20 source lines, 30 file names and 40 docstrings of the library, drawn at random, for the reading test: somebody
who has never seen the code says of each what it means, and is then shown the places of the lines, which would give
their rooms away. What is guessed wrong is renamed.
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
    parser.add_argument("--places", action="store_true", help="say too where each line stands: the solution")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    paths = sorted(library().values())
    lines = chance.sample([line for path in paths for line in statement_lines(path)], LINES)
    drawn = {
        "Source lines": [f"{text}\n      {where}" if arguments.places else text for text, where in lines],
        "File names": chance.sample([place(path) for path in paths if path.name != "__init__.py"], FILES),
        "Docstrings": chance.sample([doc for path in paths for doc in docstrings(path)], DOCSTRINGS),
    }
    for title, texts in drawn.items():
        print(f"\n{title}\n")
        for number, text in enumerate(texts, 1):
            print(f"{number:2}  {text}")


def place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def statement_lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the first line of each statement of a file with the name around it, and its place.

    Imports and docstrings are left out. A line alone, such as ``return {``, would tell a reader nothing.
    """
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()

    def visit(node: ast.AST, around: str) -> Iterator[tuple[str, str]]:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if isinstance(node, ast.stmt) and not isinstance(node, ast.Import | ast.ImportFrom) and not text:
            yield f"{lines[node.lineno - 1].strip()}    [{around or 'module'}]", f"{place(path)}:{node.lineno}"
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            around = f"{around}.{node.name}".lstrip(".")
        for child in ast.iter_child_nodes(node):
            yield from visit(child, around)

    return visit(ast.parse(source), "")


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
