"""Checkpoints that earlier versions stored in the middle of a batch: this version reads them exactly and continues."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.compatibility.cases import CASES, STORES
from tests.compatibility.drive import opened, run
from tests.compatibility.programs import BATCH, PART, record, stored
from tests.compatibility.restored import restored
from tests.compatibility.shelf import GOLDEN, versions

pytestmark = pytest.mark.filterwarnings("ignore:state '.*' fsync is off:RuntimeWarning")

STORED = [(version, name) for version in versions() for name in CASES if (GOLDEN / version / f"{name}.json").exists()]


@pytest.fixture
def check(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], None]:
    return lambda version, name: _check(version, name, request, tmp_path, monkeypatch)


@pytest.mark.parametrize(("version", "name"), [each for each in STORED if not CASES[each[1]].disk])
def test_a_stored_checkpoint_is_read_exactly_and_continues(
    version: str, name: str, check: Callable[[str, str], None]
) -> None:
    check(version, name)


@pytest.mark.parametrize(("version", "name"), [each for each in STORED if CASES[each[1]].disk])
def test_a_checkpoint_with_the_disk_of_its_broker_continues(
    version: str, name: str, check: Callable[[str, str], None]
) -> None:
    check(version, name)


def _check(
    version: str, name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case, expected = CASES[name], json.loads((GOLDEN / version / f"{name}.json").read_text())
    places = restored(case, GOLDEN / version / f"{name}.tar.xz", request, tmp_path, monkeypatch)
    assert opened(case, places) == expected["before"]  # as of the last committed batch, not of the one under way
    assert run(case, replace(places, parts=3)) == expected["after"]


@pytest.mark.parametrize(("version", "name"), [each for each in STORED if each[1] in STORES])
def test_a_state_of_a_stored_checkpoint_evolves(
    version: str, name: str, request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its program commits the batch under way first: that batch is of the former shape."""
    case = CASES[name]
    places = restored(case, GOLDEN / version / f"{name}.tar.xz", request, tmp_path, monkeypatch)
    run(case, places)
    evolved = replace(case, topology=stored(STORES[name], evolved=True))
    after = run(evolved, replace(places, parts=3))["states"]["several"]
    seqs = dict[str, list[int]]()
    for word, seq in map(record, range(3 * PART)):
        seqs.setdefault(word, []).append(seq)
    assert after == sorted(
        [repr(word), repr(sorted([len(some), sum(some), max(some), sum(some)]))] for word, some in seqs.items()
    )


def test_each_program_has_a_checkpoint_of_the_newest_version() -> None:
    assert {name for version, name in STORED if version == versions()[-1]} == {*CASES}


def test_the_stored_contents_are_those_of_the_input() -> None:
    """Compares the stored contents with a count of the input without the library."""
    held = json.loads((GOLDEN / versions()[0] / "kinds.json").read_text())
    for total, states in ((PART + BATCH, held["before"]), (3 * PART, held["after"]["states"])):
        words = [record(seq) for seq in range(total)]
        counts, sums = Counter(word for word, _ in words), Counter[str]()
        for word, seq in words:
            sums[word] += seq
        for name, expected in (("counts", counts), ("sums", sums)):
            assert states[name] == sorted([repr(word), repr(n)] for word, n in expected.items())
