"""Each command of the command line is in the guide, and helps."""

import pytest
from click.testing import CliRunner

from tests.house.sources import ROOT
from trident.cli.main import main

GUIDE = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "guide").glob("*.md")))


@pytest.mark.parametrize("name", sorted(main.commands))
def test_a_command_is_in_the_guide_and_helps(name: str) -> None:
    assert f"trident {name}" in GUIDE
    helped = CliRunner().invoke(main, [name, "--help"])
    assert helped.exit_code == 0
