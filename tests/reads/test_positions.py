"""A place in the changes of a state as text: what comes from a client is read as it was written, or refused."""

import re

import pytest

from trident.reads.state_changes import Position


@pytest.mark.parametrize("text", ["-1", "--2", "-a-1", "", "-", "1-", "a-", "a--", "1.5", "+1", "\u0661"])
def test_a_text_that_names_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        Position.read(text)


@pytest.mark.parametrize("text", ["0", "12", "6f1c-1-0-12", "6f1c-1-0.5be2-12"])
def test_a_place_is_read_as_it_was_written(text: str) -> None:
    assert str(Position.read(text)) == text
