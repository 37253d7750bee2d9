"""CONTRIBUTING names files, and names in them, that exist."""

import re
from pathlib import Path

import pytest

from tests.house.sources import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
RECIPES = re.findall(r"^## (How to add .*?)$(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL)
PATH = re.compile(r"`([\w/.]+(?:\.pyi?|\.md|/))`")
IN_FILE = re.compile(r"`(\w+)` (?:in|of)\s+`([\w/]+\.pyi?)`")


def test_there_is_a_recipe_for_each_part_that_grows() -> None:
    titles = {title for title, _ in RECIPES}
    verbs = ("a verb without a state", "a verb with a state")
    parts = (*verbs, "a sink", "an aggregator", "a state", "a spout", "a command")
    assert {f"How to add {part}" for part in parts} <= titles


@pytest.mark.parametrize(("title", "text"), RECIPES)
def test_each_file_that_a_recipe_names_exists(title: str, text: str) -> None:
    missing = [path for path in PATH.findall(text) if not _exists(path)]
    assert missing == [], title


@pytest.mark.parametrize(("title", "text"), RECIPES)
def test_each_name_that_a_recipe_finds_in_a_file_is_there(title: str, text: str) -> None:
    named = [(name, _files(path)) for name, path in IN_FILE.findall(text)]
    missing = [name for name, files in named if not any(name in file.read_text(encoding="utf-8") for file in files)]
    assert missing == [], title


def _exists(path: str) -> bool:
    return bool(_files(path)) if not path.endswith("/") else (ROOT / path).is_dir()


def _files(path: str) -> list[Path]:
    """Return the files of this path. A recipe may leave out the folder of a file that it has named before."""
    below = [
        each for root in ("trident", "trident_client", "state", "spouts", "tests") for each in (ROOT / root).rglob(path)
    ]
    return [each for each in (ROOT / path, *below) if each.is_file()]
