"""Errors that advise to discard log and states name the call and the command, by one function."""

import ast
from pathlib import Path

from tests.house.sources import library
from trident.base.discard_advice import RESET, reset_with


def test_messages_name_the_call_and_the_command() -> None:
    assert RESET == "topology.reset(name, checkpointLocation) or the command trident reset"
    assert reset_with() == "topology.reset or the command trident reset"


def test_only_one_module_writes_the_call_into_messages() -> None:
    naming = {name for name, path in library().items() if any("topology.reset" in text for text in _texts(path))}
    assert naming == {"trident.base.discard_advice"}


def _texts(path: Path) -> list[str]:
    """Return the texts of a file, without its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}  # docstrings
    texts = (node for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return [str(node.value) for node in texts if id(node) not in lone]
