"""The public names and signatures are those of the listing, and no name goes before it was long deprecated."""

import difflib
from pathlib import Path

import griffe
import pytest

from tests.compatibility.public_api import lines_of, listing, removed_too_early
from tests.compatibility.shelf import GOLDEN, versions
from trident.base.deprecation import minor_of
from trident.base.version import __version__

WRITE = "python -m tests.compatibility.public_api"


@pytest.fixture(scope="module")
def present() -> str:
    return listing()


def test_the_public_api_is_the_one_that_is_listed(present: str) -> None:
    """A change of a signature shows in the difference of a commit."""
    stored = (GOLDEN / minor_of(__version__) / "api.txt").read_text(encoding="utf-8")
    changes = [line for line in difflib.unified_diff(stored.splitlines(), present.splitlines(), n=0, lineterm="")][2:]
    assert not changes, "\n".join([f"the public API has changed; if this is meant, run {WRITE}:", *changes])


def test_no_public_name_of_a_former_version_goes_before_its_time(present: str) -> None:
    for version in versions():
        former = (GOLDEN / version / "api.txt").read_text(encoding="utf-8")
        assert removed_too_early(former, present, __version__) == []


def test_a_name_goes_two_minor_versions_after_its_deprecation() -> None:
    former = "trident.Sum()\ntrident.Total = trident.Sum  # deprecated since 0.3\ntrident.Stream.each(a: int)\n"
    present = "trident.Sum()\ntrident.Stream.each(a: int, b: int = 0)\n"
    assert removed_too_early(former, present, "0.4.1") == ["trident.Total"]
    assert removed_too_early(former, present, "0.5.0") == []
    assert removed_too_early(former, "", "0.5.0") == ["trident.Stream.each", "trident.Sum"]


def test_the_listing_has_each_kind_of_name(present: str) -> None:
    lines = present.splitlines()
    assert "trident.errors.StateLostError < StateError" in lines
    assert any(line.startswith("trident.Sum(field: str | None = None") for line in lines)
    assert "trident.configuration.start_options.StartOptions.maxAttempts: int | None" in lines
    assert any(line.startswith("trident.stream.stream.GroupedStream.persistentAggregate(state") for line in lines)


def test_the_listing_marks_names_that_go() -> None:
    code = 'class Till:\n    @deprecated("Till.sum", since="0.3")\n    def total(self, a: int) -> int: ...\n'
    module = griffe.visit("till", filepath=Path("till.py"), code=code)
    assert [*lines_of("Till", module["Till"])] == ["Till", "Till.total(a: int) -> int  # deprecated since 0.3"]
