"""The programs of the guide's page on Delta run as they stand, and print what it says."""

import re
from pathlib import Path

import pytest

from tests.support.pages import run_page

PAGE = Path(__file__).parents[3] / "docs" / "guide" / "delta.md"


def test_the_guides_programs_print_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(PAGE)
    said = capsys.readouterr().out.splitlines()
    assert said == re.findall(r"print\(.*\)  # (.*)", PAGE.read_text(encoding="utf-8")) and len(said) == 3
