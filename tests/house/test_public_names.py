"""The stub of a module lists its public names, once: a program gets from there what a type checker sees."""

import ast
import importlib
import subprocess
import sys
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import trident
import trident.functions
import trident.spouts
import trident.state
import trident.testing


def listed(module: ModuleType) -> dict[str, str]:
    """Return the public names in the stub of a module, with the modules that they come from; no former names."""
    assert module.__file__ is not None
    tree = ast.parse(Path(module.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert len(imports) == len(tree.body) - 1, "a stub has a docstring and imports, and nothing else"
    names = {
        (str(name.asname), str(node.module)) for node in imports for name in node.names if name.asname == name.name
    }
    return {name: home for name, home in names if not name.startswith("_")}


@pytest.mark.parametrize("module", [trident, trident.functions, trident.spouts, trident.state, trident.testing])
def test_a_type_checker_sees_what_a_program_gets(module: ModuleType) -> None:
    known = listed(module)
    assert sorted(known) == module.__all__
    assert set(known) <= set(dir(module))
    for name in module.__all__:
        assert getattr(importlib.import_module(known[name]), name) is getattr(module, name), name


def test_the_names_are_there_in_a_zip_file_too(tmp_path: Path) -> None:
    """Spark ships packages to workers as zip files."""
    source = Path(trident.__file__).parent.parent
    with zipfile.ZipFile(tmp_path / "library.zip", "w") as packed:
        for file in (source / "trident").rglob("*.py*"):
            if file.suffix in (".py", ".pyi"):
                packed.write(file, file.relative_to(source))
    program = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'library.zip')!r}); import trident, trident.errors; "
        "assert 'library.zip' in trident.__file__; assert trident.TridentError is trident.errors.TridentError"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
