"""`trident config`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from trident.cli.main import main


def test_config_shows_values_with_their_layers_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trident.toml").write_text('[start]\nmaxAttempts = 3\nlog = "redis://:hidden@localhost/0"\n')
    shown = CliRunner().invoke(main, ["config", "--name", "wc"], env={"TRIDENT_START_MAX_SPOUT_PENDING": "4"})
    rows = {row["option"]: row for row in map(json.loads, shown.output.splitlines())}
    assert rows["maxAttempts"] == {"option": "maxAttempts", "value": 3, "from": "trident.toml, [start]"}
    assert rows["maxSpoutPending"]["from"] == "TRIDENT_START_MAX_SPOUT_PENDING"
    assert rows["log"]["value"] == "RedisLog('redis://:***@localhost/0')"
    assert "hidden" not in shown.output


def test_config_shows_options_of_spouts_without_their_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trident.toml").write_text('[spouts.orders]\noptions = { "sasl.password" = "hidden" }\n')
    shown = CliRunner().invoke(main, ["config"], env={"TRIDENT_START_SPOUTS": "orders.maxOffsetsPerBatch=4"})
    (row,) = [row for row in map(json.loads, shown.output.splitlines()) if row["option"] == "spouts"]
    assert row["value"] == {"orders": {"options": {"sasl.password": "***"}, "maxOffsetsPerBatch": 4}}
    assert row["from"] == "trident.toml, [spouts]; TRIDENT_START_SPOUTS"


def test_config_of_a_wrong_file_ends_with_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("trident.toml").write_text("[start]\nmaxAttempt = 3\n")
    shown = CliRunner().invoke(main, ["config"])
    assert shown.exit_code == 1
    assert "did you mean 'maxAttempts'?" in shown.output
