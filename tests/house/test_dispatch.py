"""The nodes and update forms of verbs are known in their tables: elsewhere, few functions ask for the class of one."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from tests.house.sources import ROOT, library
from trident.compiler.state_updates import FORMS
from trident.operations.column_updaters import ColumnUpdater
from trident.plan import nodes

OF_THE_ENGINES = {"PersistentAggregate", "Watermark"}
"""The nodes that belong to no single verb: the engines aggregate for one, and windows, joins and others have the other.
"""

ASKING = {
    "trident/plan/dead_letters.py keeper_of",  # the updater of dead letters is known by its class
    "trident/compiler/states/stateful.py has_hook",
    "trident/commits/stage_writes.py _note_times",  # the times of windows in progress events
}
"""The functions that ask for one of these classes for a reason. Do not add to this list: add a trait to a table."""

MOST_FILES = 8
"""The most files of the library that a verb with a state is in, if it needs no node and no class of streams."""


def test_no_function_asks_which_verb_made_a_node() -> None:
    verbs = {kind.__name__ for kind in [*get_args(nodes.StateWriter), *FORMS, ColumnUpdater]} - OF_THE_ENGINES
    asking = {
        f"{path.relative_to(ROOT)} {function.name}"
        for path, source in sources()
        if any(name in source for name in verbs)
        for function in ast.walk(ast.parse(source))
        if isinstance(function, ast.FunctionDef) and verbs.intersection(_classes_asked(function))
    }
    assert asking - ASKING == set()


def test_a_verb_with_a_state_is_in_few_files() -> None:
    words = ("dropDuplicates(", "FirstOfKey", "first_of_key", "DuplicateVerbs")
    files = [str(path.relative_to(ROOT)) for path, source in sources() if any(word in source for word in words)]
    files.remove("trident/stream/map.py")  # its example calls the method of a Spark DataFrame
    assert len(files) <= MOST_FILES, files


def sources() -> Iterator[tuple[Path, str]]:
    return ((path, path.read_text(encoding="utf-8")) for path in library().values())


def _classes_asked(function: ast.FunctionDef) -> Iterator[str]:
    """Yield the names of the classes in a function's `isinstance` and class patterns, but not in its assertions."""
    waiting: list[ast.AST] = list(ast.iter_child_nodes(function))
    while waiting:
        part = waiting.pop()
        if isinstance(part, ast.Assert | ast.FunctionDef):
            continue
        waiting += ast.iter_child_nodes(part)
        if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "isinstance":
            yield from _names(part.args[1])
        elif isinstance(part, ast.MatchClass):
            yield from _names(part.cls)


def _names(kind: ast.AST) -> Iterator[str]:
    for part in ast.walk(kind):
        if isinstance(part, ast.Attribute | ast.Name):
            yield part.attr if isinstance(part, ast.Attribute) else part.id
