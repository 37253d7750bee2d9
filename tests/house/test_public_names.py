"""Names that are looked up when they are first used are known to type checkers too, from the same place."""

import ast
import importlib
from types import ModuleType

import pytest

import trident
import trident.state


def shown(module: ModuleType) -> dict[str, str]:
    """Return the names that the module imports for type checkers alone, each with its module."""
    assert module.__file__ is not None
    with open(module.__file__, encoding="utf-8") as source:
        tree = ast.parse(source.read())
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    imports = [node for block in blocks for node in block.body if isinstance(node, ast.ImportFrom)]
    return {name.name: str(node.module) for node in imports for name in node.names}


@pytest.mark.parametrize("module", [trident, trident.state])
def test_a_type_checker_sees_what_a_program_gets(module: ModuleType) -> None:
    known = shown(module)
    assert set(module.__all__) - known.keys() == set()
    for name in module.__all__:
        assert getattr(importlib.import_module(known[name]), name) is getattr(module, name), name
