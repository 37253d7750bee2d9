"""Measures the library's code: size, complexity of functions, signatures, and imports of the Spark engine from outside.

To run it: ``python -m tests.house.measure``. Complexity counts each branch: ``if``, loops, handlers, cases, assertions,
conditional expressions, boolean operators, and each ``for`` and ``if`` of a comprehension.
`tests/house/test_measures.py` holds the limits.
"""

import ast
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.house.sources import ROOT, imports_of, library

_ONE = ast.If | ast.For | ast.While | ast.AsyncFor | ast.ExceptHandler | ast.match_case | ast.IfExp | ast.Assert
_SKIPPED = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
_FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the library: where it is, its branches plus one, and its number of parameters."""

    where: str
    complexity: int
    parameters: int


@cache
def functions() -> tuple[Function, ...]:
    """Return all functions of the library, and methods."""
    return tuple(each for path in library().values() for each in _functions(path))


def _functions(path: Path) -> Iterator[Function]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, _FUNCTION):
            args = node.args
            count = len([*args.posonlyargs, *args.args, *args.kwonlyargs]) + bool(args.vararg) + bool(args.kwarg)
            where = f"{path.relative_to(ROOT)}:{node.name}"
            yield Function(where, 1 + sum(map(_branches, _own(node))), count)


def _own(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function, but not those of the functions and classes in it."""
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, _FUNCTION | ast.ClassDef):
            yield child
            yield from _own(child)


def _branches(node: ast.AST) -> int:
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    return int(isinstance(node, _ONE))


def code_lines() -> int:
    """Return the library's lines without blank ones, comments and docstrings."""
    return sum(len(_lines(path)) for path in library().values())


def _lines(path: Path) -> set[int]:
    with path.open("rb") as file:
        tokens = [token for token in tokenize.tokenize(file.readline) if token.type not in _SKIPPED]
    lines = {line for token in tokens for line in range(token.start[0], token.end[0] + 1)}
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            lines -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines


def spark_imports() -> list[str]:
    """Return which modules outside the Spark engine import one of its modules: "importer imported"."""
    modules = library()
    inside = "trident.compiler.spark"
    found = (
        f"{name} {imported}"
        for name, path in modules.items()
        if not name.startswith(inside)
        for imported in imports_of(path.read_text(encoding="utf-8"), set(modules))
        if imported.startswith(inside)
    )
    return list(dict.fromkeys(found))


def main() -> None:
    """Print the measures."""
    by_complexity = sorted(functions(), key=lambda each: -each.complexity)
    print(f"code lines                 {code_lines():,} in {len(library())} files")
    print(f"functions                  {len(by_complexity):,}")
    for limit in (20, 15):
        print(f"of complexity over {limit}      {sum(each.complexity > limit for each in by_complexity)}")
    for each in by_complexity[:12]:
        print(f"  {each.complexity:3} {each.where}")
    print("largest signatures")
    for each in sorted(functions(), key=lambda each: -each.parameters)[:8]:
        print(f"  {each.parameters:3} {each.where}")
    print(f"imports of compiler/spark from outside it: {len(spark_imports())}")


if __name__ == "__main__":
    main()
