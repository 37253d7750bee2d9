"""Random histories of a folder that is read: no line is lost in silence, and none counts twice."""

import random
import shutil
from pathlib import Path

import pytest

from tests.spouts.files.histories import Folder, any_options, history
from tests.support.soak import Soak


def live(folder: Path, seed: int) -> str:
    log, chance = [f"seed {seed}"], random.Random(seed)
    world = Folder(folder, chance, may_break=chance.random() < 0.6)
    try:
        return history(world, chance, any_options(chance), log)
    except AssertionError as error:
        raise AssertionError("; ".join([*log, str(error)])) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("seed", range(7_000, 7_012))
def test_no_line_of_a_folder_is_lost_or_counted_twice(tmp_path: Path, seed: int) -> None:
    live(tmp_path / "world", seed)


@pytest.mark.soak(weight=2)
def test_no_line_of_many_folders_is_lost_or_counted_twice(tmp_path: Path, soak: Soak) -> None:
    ends = [live(tmp_path / "world", draw.getrandbits(48)) for draw in soak.draws(1_000)]
    # More than half of the histories may break a rule and be refused, so a few say nothing.
    assert "exact" in ends or len(ends) < 20, "every history was refused"


def test_a_history_depends_on_its_seed_alone() -> None:
    assert any_options(random.Random(3)) == any_options(random.Random(3))
