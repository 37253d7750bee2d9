"""The prose of pages and docstrings stays plain: few of the words that make a reader read twice."""

from collections.abc import Callable

import pytest

from tests.house.prose import markers_in, measured, prose_of, texts_of_docstrings, texts_of_pages

LIMITS = {"pages": 2.3, "docstrings": 2.1}
"""Markers per 1,000 words. They fall as the prose is rewritten, and never rise: rewrite a sentence instead."""


@pytest.mark.parametrize(("kind", "texts"), [("pages", texts_of_pages), ("docstrings", texts_of_docstrings)])
def test_the_markers_of_a_dialect_are_few(kind: str, texts: Callable[[], list[tuple[str, str]]]) -> None:
    rate, table = measured(texts())
    assert rate <= LIMITS[kind], f"{rate:.2f} markers per 1,000 words of {kind}, {LIMITS[kind]} allowed:\n{table}"


def test_a_marker_is_counted_in_prose_and_not_in_code() -> None:
    page = "It tells `what` it holds.\n\n```\nwhat\n```\n\nWho waits [behind it](what.md) goes on where it stood.\n"
    counts = {name: count for name, count in markers_in(prose_of(page)).items() if count}
    assert counts == {"told": 1, "who": 1, "behind": 1, "goes on": 1, "where": 1, "stands": 1}
    assert markers_in("What is it?")["what"] == 0
