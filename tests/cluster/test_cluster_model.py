"""Kill, activate, deactivate, rebalance, submit and resume in drawn orders and at once, against models."""

import os
import random
from pathlib import Path

import pytest

import trident
from tests.cluster.cluster_model import check_history, check_interleaving
from tests.cluster.stored import ROOT, Stored
from tests.cluster.stored_model import StoredModel
from tests.support.soak import Soak, some_of


@pytest.mark.parametrize("seed", range(4))
def test_a_drawn_history_of_calls_keeps_to_the_model(tmp_path: Path, seed: int) -> None:
    check_history(tmp_path, seed, 25)
    assert trident.active() == []


@pytest.mark.parametrize("seed", range(2))
def test_calls_at_once_leave_a_topology_that_can_be_killed(tmp_path: Path, seed: int) -> None:
    check_interleaving(tmp_path, seed, 6)
    assert trident.active() == []


@pytest.mark.soak
def test_many_histories_keep_to_the_model(tmp_path: Path, soak: Soak) -> None:
    for draws in soak.draws(200):
        seed = draws.randrange(1 << 32)
        check_history(tmp_path, seed, 40)
        check_interleaving(tmp_path, seed, 8)
        assert trident.active() == [], f"seed {seed}"


# --- stored topologies, whose drivers are processes -------------------------------------------------------------------


def check_stored(folder: Path, draws: random.Random, steps: list[str | None]) -> None:
    stored = Stored(folder)
    folder.mkdir(exist_ok=True)
    stored.write()
    model = StoredModel(stored, draws)
    try:
        for step in steps:
            model.step(step)
        model.end()
    finally:
        model.close()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(ROOT / "state"), str(ROOT / "spouts")]))


@pytest.mark.usefixtures("library")
def test_without_a_driver_each_command_keeps_to_the_model(tmp_path: Path) -> None:
    draws = random.Random(5)
    calls = ["submit", "activate", "deactivate", "rebalance", "kill"]
    check_stored(tmp_path, draws, ["submit", *(draws.choice(calls) for _ in range(25))])


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("end", some_of(["kill", "deactivate"], ["kill"]))
def test_a_standby_plans_nothing_that_is_not_wanted_any_more(tmp_path: Path, end: str) -> None:
    """What operators want changes while it waits: it ends with a kill, and takes an inactive topology over as it is."""
    steps = ["submit", "activate", "resume", "resume --standby", end]
    steps += ["end the driver", "activate"] if end == "deactivate" else []
    check_stored(tmp_path, random.Random(1), [*steps])


@pytest.mark.soak
@pytest.mark.usefixtures("library")
def test_drawn_commands_and_ends_of_drivers_keep_to_the_model(tmp_path: Path, soak: Soak) -> None:
    for number, draws in enumerate(soak.draws(50)):
        check_stored(tmp_path / f"drawn{number}", draws, ["submit", *[None] * 12])
