"""The page of faults names tests that exist, and every row has one or says why it needs none."""

from tests.support.pages import ROOT, absent_tests, named_tests

PAGE = (ROOT / "docs" / "faults.md").read_text(encoding="utf-8")


def rows() -> list[list[str]]:
    lines = [
        line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| fault ", "| case "))
    ]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_every_test_that_the_page_names_exists() -> None:
    assert len(named_tests(PAGE)) > 80
    assert absent_tests(PAGE) == []


def test_every_fault_has_a_test_or_a_reason_why_it_cannot_matter() -> None:
    assert len(rows()) == 51 + 22
    for fault, outcome, shown in rows():
        assert outcome, fault
        assert named_tests(shown) or outcome.startswith("cannot matter: "), fault
        assert PAGE.count(f"| {fault} |") == 1


def test_all_of_the_subtle_cases_are_there_in_their_order() -> None:
    numbers = [int(fault.partition(".")[0]) for fault, *_ in rows() if fault[0].isdigit()]
    assert numbers == list(range(1, 23))
