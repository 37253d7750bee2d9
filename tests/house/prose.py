"""Count the markers of a dialect in prose and docstrings: python -m tests.house.prose [page ...].

Prints the sentences with markers of the pages that are named, or the totals of all pages and of all docstrings.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import ROOT, library

MARKERS = {
    "what": r"\bwhat\b(?![^.]*\?)",
    "where": r"\bwhere (?:an?|the|it|its|they|this|that|these|one|no|there|nothing)\b",
    "own": r"\b(?:its|your|their|one's) own\b",
    "goes on": r"\b(?:go|goes|going|went) on\b",
    "who": r"\b(?:who|whose|whom)\b",
    "nobody": r"\b(?:nobody|somebody|anybody)\b",
    "told": r"\b(?:tells|told)\b",
    "stands": r"\b(?:stands?|stood|lies|lie|lay)\b",
    "behind": r"\bbehind\b",
    "anew": r"\banew\b|\bno more\b(?! than)",
}
"""Words that the guides of other libraries hardly use, and that make a reader read twice; each with its plain form:
the noun, if, nothing, continues, the component, no reader, reports, is, after, again."""

_ANY = re.compile("|".join(MARKERS.values()), re.IGNORECASE)


def pages() -> list[Path]:
    """Return the pages whose prose is measured: the README, the changelog, and the documentation but its decisions."""
    docs = [page for page in (ROOT / "docs").rglob("*.md") if "decisions" not in page.parts]
    return [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted(docs)]


def prose_of(page: str) -> str:
    """Return the words of a Markdown page: no code, no targets of links, no lines that draw a table."""
    text = re.sub(r"^ *```.*?^ *```", "", page, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    text = re.sub(r"`[^`\n]*(?:\n[^`\n]+)?`", "CODE", text)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    return re.sub(r"^[|: -]+$", "", text, flags=re.MULTILINE)


def docstrings() -> Iterator[tuple[Path, str]]:
    """Yield each docstring of the library, with its file."""
    for path in sorted(library().values()):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                text = ast.get_docstring(node)
                if text:
                    yield path, re.sub(r"^ *(>>>|\.\.\.) .*$", "", text, flags=re.MULTILINE)


def words_in(text: str) -> int:
    """Return the number of words."""
    return len(re.findall(r"[A-Za-z][\w'-]*", text))


def markers_in(text: str) -> dict[str, int]:
    """Return how often each marker occurs."""
    return {name: len(re.findall(marker, text, re.IGNORECASE)) for name, marker in MARKERS.items()}


def measured(texts: list[tuple[str, str]]) -> tuple[float, str]:
    """Return the markers per 1,000 words of all texts, and a table of the markers and of the ten worst texts."""
    words = sum(words_in(text) for _, text in texts)
    totals = markers_in("\n".join(text for _, text in texts))
    counts = sorted(((sum(markers_in(text).values()), words_in(text), name) for name, text in texts), reverse=True)
    table = [f"{1000 * count / words:6.2f}  {marker}" for marker, count in totals.items()]
    worst = [f"{count:4} in {number} words  {name}" for count, number, name in counts[:10]]
    return 1000 * sum(totals.values()) / words, "\n".join([*table, *worst])


def texts_of_pages() -> list[tuple[str, str]]:
    """Return the names and the prose of all pages."""
    return [(page.relative_to(ROOT).as_posix(), prose_of(page.read_text(encoding="utf-8"))) for page in pages()]


def texts_of_docstrings() -> list[tuple[str, str]]:
    """Return each file of the library with its docstrings as one text."""
    files: dict[str, list[str]] = {}
    for path, text in docstrings():
        files.setdefault(path.relative_to(ROOT).as_posix(), []).append(text)
    return [(name, "\n\n".join(texts)) for name, texts in files.items()]


def main() -> None:
    """Print the sentences with markers of the pages that are named, or the totals of all pages and docstrings."""
    for name in sys.argv[1:]:
        text = re.sub(r"\s+", " ", prose_of(Path(name).read_text(encoding="utf-8")))
        print(*[sentence for sentence in re.split(r"(?<=[.:;|]) ", text) if _ANY.search(sentence)], sep="\n")
    if not sys.argv[1:]:
        for texts in (texts_of_pages(), texts_of_docstrings()):
            print("{:.2f} markers per 1,000 words\n{}".format(*measured(texts)))


if __name__ == "__main__":
    main()
