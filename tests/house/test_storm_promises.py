"""The page of Storm's promises: each has what takes its place here, and tests that exist."""

from tests.support.pages import ROOT, absent_tests, named_tests

PAGE = (ROOT / "docs" / "storm-promises.md").read_text(encoding="utf-8")
PROMISES, _, VOID = PAGE.partition("\n## What means nothing here\n")


def rows_of(text: str) -> list[list[str]]:
    """Return the cells of each row of the tables, without their heads."""
    rows = [line.strip("|").split("|") for line in text.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in row] for row in rows]
    return [row for row in cells if not (row[-1] == "test" or row[0] == "in Storm")]


def test_every_test_that_the_page_names_exists() -> None:
    assert absent_tests(PAGE) == []


def test_every_promise_has_its_place_and_its_test_and_stands_once() -> None:
    rows = rows_of(PROMISES)
    assert len(rows) >= 100
    for promise, here, shown in rows:
        assert named_tests(shown), promise
        assert "](" in here, f"where is the example? {promise}"
        assert PAGE.count(f"| {promise} |") == 1, promise


def test_what_means_nothing_here_says_why() -> None:
    rows = rows_of(VOID)
    assert rows and all(len(row) == 2 and row[1] for row in rows)
