"""Kill, activate, deactivate, rebalance, submit and stop in drawn orders and at once, against a model of conditions."""

from pathlib import Path

import pytest

import trident
from tests.cluster.cluster_model import check_history, check_interleaving
from tests.support.soak import Soak


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
