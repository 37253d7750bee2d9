"""The source files of the library, for the tests and programs that judge how it is built and written."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE_ROOTS = {
    "trident": ROOT,
    "trident_client": ROOT,
    "trident_state": ROOT / "state",
    "trident_spouts": ROOT / "spouts",
}


def library() -> dict[str, Path]:
    """Return the file of every module of the library, by the module's name."""
    files = ((root, path) for name, root in SOURCE_ROOTS.items() for path in sorted((root / name).rglob("*.py")))
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
