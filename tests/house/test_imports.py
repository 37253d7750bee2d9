"""Imports form no circle, and every room of the library has its place in the contract of pyproject.toml."""

import ast
import re
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = {"trident": ROOT, "trident_state": ROOT / "state", "trident_spouts": ROOT / "spouts"}


def library() -> dict[str, Path]:
    """Return the file of every module of the library, by the module's name."""
    files = ((root, path) for name, root in SOURCE_ROOTS.items() for path in (root / name).rglob("*.py"))
    return {
        ".".join(path.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): path for root, path in files
    }


def imports_of(source: str, modules: set[str]) -> Iterator[str]:
    """Yield the modules that a source imports: at its head, within functions, and for type checkers alone."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in modules)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "the library imports by absolute names"
            for name in node.names:
                full = f"{node.module}.{name.name}"
                if full in modules or node.module in modules:
                    yield full if full in modules else str(node.module)


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = library()
    graph = {name: set(imports_of(path.read_text(encoding="utf-8"), set(modules))) for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # a CycleError names the modules of one circle


def test_an_import_counts_wherever_it_stands() -> None:
    source = "import a\nif TYPE_CHECKING:\n    from b import c\ndef f():\n    from b.d import E\n    import json\n"
    assert set(imports_of(source, {"a", "b", "b.c", "b.d"})) == {"a", "b.c", "b.d"}


def test_every_room_stands_in_the_contract() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    named = {room for layer in settings["contracts"][0]["layers"] for room in re.split(r" \| ", layer)}
    rooms = {f"trident.{path.parent.name}" for path in (ROOT / "trident").glob("*/__init__.py")}
    assert rooms - named == set()
