"""Imports form no circle, and every room of the library has its place in the contract of pyproject.toml."""

import re
import tomllib
from graphlib import TopologicalSorter

from tests.house.sources import ROOT, imports_of, library


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
