"""The options of a start are declared once: every other place that names them follows, or is compared here."""

import ast
import functools
import inspect
import re
from pathlib import Path
from typing import get_type_hints

import pytest

from tests.house.sources import ROOT, library
from trident import TridentTopology
from trident.base.durations import Duration
from trident.configuration import value_kinds as kinds
from trident.configuration.start_options import OPTIONS, OptionValues, StartOptions
from trident.log import RedisLog

DECLARED = "trident/configuration/start_options.py"
DESCRIBED = "trident/topology.py"
OF_OTHER_CALLS = {
    "engine": "explain",
    "name": "many",
    "checkpointLocation": "openState, reset and others",
    "log": "the same",
    "filesLocation": "the same",
    "filesStorage": "the same",
    "retrySecs": "RedisLog and sources",
    "parallelismHints": "explain",
    "ledger": "explain",
    "active": "submitTopology",
    "standby": "a stored driver",
    "replace": "each and export",
    "user": "JdbcSpout and PostgresChangesSpout",
}
"""The options that other calls have as well, and which."""


def test_type_checkers_know_each_option_with_the_type_of_its_values() -> None:
    names = {"RedisLog": RedisLog}
    given, used = get_type_hints(StartOptions, localns=names), get_type_hints(OptionValues, localns=names)
    assert list(given) == list(used) == list(OPTIONS)
    durations = (kinds.DURATION, kinds.LIMIT, kinds.LIMIT_OR_ZERO)
    widened = {name: Duration | used[name] for name, option in OPTIONS.items() if option.kind in durations}
    widened |= {"engine": used["engine"] | None, "name": str | None, "checkpointLocation": str | Path | None}
    assert given == used | widened


def test_the_docstring_of_start_describes_each_option_with_its_default() -> None:
    text = (inspect.getdoc(TridentTopology.start) or "").partition("Raises\n")[0]  # Python 3.13 keeps no indentation
    described = dict(re.findall(r"^(\w+) : (.*(?:\n {4}.*)+)", text, flags=re.MULTILINE))
    assert {*described} - {"spark"} == {*OPTIONS}
    for name, option in OPTIONS.items():
        if isinstance(option.default, int | float) and not isinstance(option.default, bool):
            assert f"Default {_shown(option.default)}" in described[name], name


def _shown(default: object) -> str:
    """Return a default as a reader sees it."""
    if isinstance(default, int) and not isinstance(default, bool) and default >= 10_000:
        for unit, shift in (("GB", 30), ("MB", 20)):
            if default >> shift << shift == default:
                return f"{default >> shift} {unit}"
        return f"{default:,}"
    return f"{default:g}" if isinstance(default, float) else repr(default)


def test_the_guide_has_a_row_for_each_option_with_its_default_and_its_line_of_help() -> None:
    guide = (ROOT / "docs" / "guide" / "running.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", guide.partition("## Options")[2].partition("\n## ")[0], re.M)
    assert [name for name, _, _ in rows] == list(OPTIONS)
    for name, default, meaning in rows:
        option = OPTIONS[name]
        assert option.default is None or default.strip("`").replace('"', "'") == _shown(option.default), name
        assert meaning.startswith(option.help), f"{name}: begin its row with: {option.help}"


@pytest.mark.parametrize("option", [name for name in OPTIONS if name not in OF_OTHER_CALLS])
def test_an_option_is_declared_in_one_file_and_described_in_another(option: str) -> None:
    found = {str(path.relative_to(ROOT)) for path in library().values() if option in _declared(path)}
    assert found == {DECLARED, DESCRIBED}


@functools.cache
def _declared(path: Path) -> set[str]:
    """Return the names that a module declares with a default, or describes in the list of a docstring."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.arguments):
            defaults = zip(node.kwonlyargs, node.kw_defaults, strict=True)
            found |= {arg.arg for arg, default in defaults if default is not None}
            found |= {arg.arg for arg in [*node.posonlyargs, *node.args][::-1][: len(node.defaults)]}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            found.add(node.target.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(re.findall(r"^\s+(\w+) : ", node.value, flags=re.MULTILINE))
    return found
