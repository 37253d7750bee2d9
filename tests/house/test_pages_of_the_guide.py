"""Pages of the guide that are programs: run as they stand, in a folder of their own."""

from pathlib import Path

import pytest

from tests.support.pages import run_page

GUIDE = Path(__file__).parents[2] / "docs" / "guide"


@pytest.mark.parametrize(
    "name",
    [
        "delta-state",
        "lifecycle",
        "output",
        "poison",
        "from-foreachbatch",
        "from-storm-trident",
        "from-structured-streaming",
        "stateful",
        "timers",
    ],
)
def test_a_page_of_the_guide_runs_as_it_stands(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(GUIDE / f"{name}.md")
