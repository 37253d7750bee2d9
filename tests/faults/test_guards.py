"""The list of guards fits the sources; `tests.faults.guards` takes minutes and shows that each is noticed."""

from collections import Counter

import pytest

from tests.faults.guard_list import GUARDS, Guard
from tests.faults.guards import ROOT, mutant


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_a_guard_stands_where_the_list_says(guard: Guard) -> None:
    source = (ROOT / guard.file).read_text()
    assert mutant(guard, source) != source
    assert guard.tests.split()[0].startswith("tests/") and (ROOT / guard.tests.split()[0]).exists()


def test_the_page_shows_the_last_run_of_the_whole_list() -> None:
    page = (ROOT / "docs" / "guards.md").read_text(encoding="utf-8")
    rows = [f"| {guard.name} | {guard.prevents} | `{guard.tests}` |" for guard in GUARDS]
    assert [row for row in rows if row not in page] == []
    assert max(Counter(guard.name for guard in GUARDS).values()) == 1
