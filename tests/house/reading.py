"""Draw what a stranger reads for a reading test: python -m tests.house.reading [--seed N] [--places].

Prints 20 source lines, 30 file names, 40 docstrings, 64 error messages of the library and 60 sentences of the pages,
drawn at random. Somebody who has never seen the code says of each what it means, and is then shown the places of the
lines, which would give their rooms away. A sentence that is read twice is rewritten, a name that is guessed wrong is
changed.
"""

import argparse
import ast
import random
import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.prose import pages
from tests.house.sources import ROOT, library

LINES, FILES, DOCSTRINGS, ERRORS, SENTENCES = 20, 30, 40, 64, 60


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.reading", description="Draw texts for strangers to read."
    )
    parser.add_argument("--seed", type=int, default=0, help="another seed draws other ones (0)")
    parser.add_argument("--places", action="store_true", help="say the place of each line too: the solution")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    paths = sorted(library().values())
    lines = chance.sample([line for path in paths for line in statement_lines(path)], LINES)
    drawn = {
        "Source lines": [f"{text}\n      {where}" if arguments.places else text for text, where in lines],
        "File names": chance.sample([place(path) for path in paths if path.name != "__init__.py"], FILES),
        "Docstrings": chance.sample([doc for path in paths for doc in docstrings(path)], DOCSTRINGS),
        "Error messages": chance.sample([message for path in paths for message in messages(path)], ERRORS),
        "Sentences": chance.sample([sentence for page in pages() for sentence in sentences(page)], SENTENCES),
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


def messages(path: Path) -> Iterator[str]:
    """Yield the texts of each error that a file makes, with its values as ``{name}``. Single words are left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and re.search(r"(Error|Exception)$", ast.unparse(node.func)):
            given = [*node.args, *(keyword.value for keyword in node.keywords)]
            texts = [text for argument in given for text in texts_in(argument) if " " in text.strip()]
            if texts:
                yield f"{' | '.join(texts)}\n      {place(path)}:{node.lineno}: {ast.unparse(node.func)}"


def texts_in(node: ast.AST) -> list[str]:
    """Return the texts of an expression: a text as a whole, the values within it in braces."""
    if isinstance(node, ast.JoinedStr):
        parts = (part if isinstance(part, ast.Constant) else part.value for part in node.values)  # type: ignore[attr-defined]
        return ["".join(str(p.value) if isinstance(p, ast.Constant) else f"{{{ast.unparse(p)}}}" for p in parts)]
    if isinstance(node, ast.Constant):
        return [node.value] if isinstance(node.value, str) else []
    return [text for child in ast.iter_child_nodes(node) for text in texts_in(child)]


def sentences(page: Path) -> Iterator[str]:
    """Yield the sentences of a page's paragraphs and lists, with its place. Code, headings and tables are left out."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"^ *(#|\||!\[|---|:::).*$", "", text, flags=re.MULTILINE)
    for block in re.split(r"\n\s*\n|\n *(?:[-*]|\d+\.) ", re.sub(r"\]\([^)]*\)", "]", text)):
        for sentence in re.split(r"(?<=[.?!:]) +(?=[A-Z`*\[])", " ".join(block.split())):
            if len(sentence.split()) > 4:
                yield f"{sentence}\n      {place(page)}"


if __name__ == "__main__":
    main()
