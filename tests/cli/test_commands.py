"""Each command of the command line is in the guide, and helps."""

import re

import pytest
from click.testing import CliRunner

from tests.house.sources import ROOT
from trident.cli.main import _ELSEWHERE, main

GUIDE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "guide").glob("*.md")))


@pytest.mark.parametrize("name", sorted(main.commands))
def test_a_command_is_in_the_guide_and_helps(name: str) -> None:
    assert f"trident {name}" in GUIDE
    helped = CliRunner().invoke(main, [name, "--help"])
    assert helped.exit_code == 0


@pytest.mark.parametrize(("word", "command"), [("status", "trident list"), ("jar", "trident submit module:topology")])
def test_a_command_of_another_system_names_the_one_here(word: str, command: str) -> None:
    told = CliRunner().invoke(main, [word, "shop"])
    assert told.exit_code == 2 and f"No such command '{word}'" in told.output and f"`{command}`" in told.output


def test_a_command_of_another_system_hides_no_command() -> None:
    assert not _ELSEWHERE.keys() & main.commands.keys()
    named = {name for text in _ELSEWHERE.values() for name in re.findall(r"`trident (\w+)", text)}
    assert named <= main.commands.keys()
